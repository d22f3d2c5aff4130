//! List and watch, case by case: each bug that was found in the wild around them is a test here, and each test asks both
//! doors, REST and gRPC, through one driver.
//!
//! * `door`: the driver; `rest` and `grpc`: how it speaks on each
//! * `revisions`: what a revision means to reads (rows 1, 2, 6, 9, 13, 31)
//! * `events`: what a watch tells (rows 3, 4, 19, 20, 26, 29)
//! * `history`: when history ends, and what comes after (rows 5, 7, 8, 10, 22)
//! * `state`: the initial state of a watch (rows 14, 15, 16)
//! * `pages`: pages of a list (row 12); `patches`: strategic merge (row 33)
//! * `informers`: our own client (rows 17, 18, 27, 28, 30)
//!
//! A name begins with its row, numbered as the bugs were collected: of Kubernetes 1 #59848, 2 #67998, 3 #58545, 4 #24004,
//! 5 #25151, 6 #49956, 7 #116122, 8 #123072, 9 #91073, 10 #87292, 12 #94002, 13 #83651, 14 #126958, 15 #134837, 17 #115658,
//! 18 #83810, 19 #141529, 20 #131779, 22 #129266, 31 #95958, 33 #103544; 16 kcp#3871; 26 kube-rs#1844; 27 vector#5846;
//! 28 python#1729; 29 python#2228; 30 kubespawner#81. Those of foreign clients are tested with these clients, in
//! `foreign_clients`.

mod door;
mod events;
mod grpc;
mod history;
mod informers;
mod pages;
mod patches;
mod rest;
mod revisions;
mod state;
