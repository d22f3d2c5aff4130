//! The Listwatch server as a library: the storage engine, the doors that serve it, and what stands between them.

pub mod clock;
pub mod storage;

pub mod etcd;

pub mod registry;

pub mod auth;
pub mod kubelets;
pub mod pki;
pub mod resources;
mod rest;
pub mod transport;

pub mod config;
pub mod server;

pub use server::run;
