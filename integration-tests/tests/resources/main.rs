//! The resource API as its clients see it: `listwatch.v1` over TLS, against whole processes.
//!
//! * `auth`: who is let in, and as whom; `etcd_entry`: who enters the other port
//! * `verbs`: every verb, its views and its refusals
//! * `owners`: who owns which fields, server-side apply, deletion of collections
//! * `watch`: the contract of watches; `slow`: readers that stand still
//! * `admin`: what an operator asks
//! * `requests`, `starts`: what cannot be read, and what cannot be started

mod admin;
mod auth;
mod door;
mod etcd_entry;
mod owners;
mod raw;
mod requests;
mod slow;
mod starts;
mod verbs;
mod watch;
