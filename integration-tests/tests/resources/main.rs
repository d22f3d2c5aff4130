//! The resource API as its clients see it: `listwatch.v1` over TLS, against whole processes.
//!
//! * `auth`: who is let in, and as whom; `etcd_entry`: who enters the other port
//! * `verbs`: every verb, its views and its refusals
//! * `owners`: who owns which fields, server-side apply, deletion of collections
//! * `watch`: the contract of watches; `slow`: readers that stand still
//! * `admin`: what an operator asks
//! * `connections`: clients that take nothing, say nothing, or ask for too much; `frames` is HTTP/2 by hand
//! * `requests`, `starts`: what cannot be read, and what cannot be started; `shutdown`: the end of a server in use

mod admin;
mod auth;
mod connections;
mod door;
mod etcd_entry;
mod frames;
mod owners;
mod raw;
mod requests;
mod shutdown;
mod slow;
mod starts;
mod verbs;
mod watch;
