//! List and watch, case by case: each bug that was found in the wild around them is a test here, and each test asks both
//! doors, REST and gRPC, through one driver.
//!
//! * `door`: the driver; `rest` and `grpc`: how it speaks on each
//! * `revisions`: what a revision means to reads (rows 1, 2, 6, 9, 13, 31)
//! * `events`: what a watch tells (rows 3, 4, 19, 20, 26, 29)
//! * `history`: when history ends, and what comes after (rows 5, 7, 8, 10, 22)
//! * `state`: the initial state of a watch (rows 14, 15, 16)
//! * `pages`: pages of a list (row 12); `patches`: strategic merge and apply (row 33)
//! * `informers`: our own client (rows 17, 18, 27, 28, 30); `kube_rs`: kube-rs' watcher (rows 23, 24, 25)
//! * `owners`: what the garbage collector makes of owners that are none (row 32)
//! * `table`: holds `docs/conformance.md`, which says what each row is, to these tests
//!
//! A name begins with its row, numbered as the bugs were collected. What foreign clients make of the whole of it is tested
//! in `foreign_clients`.

mod door;
mod events;
mod grpc;
mod history;
mod informers;
mod kube_rs;
mod owners;
mod pages;
mod patches;
mod rest;
mod revisions;
mod state;
mod table;
