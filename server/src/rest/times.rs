//! How long requests may last.

use std::time::Duration;

/// How long requests of the REST API may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimes {
    /// `--request-timeout`: a request that is no watch, log or session.
    pub request: Duration,
    /// `--min-request-timeout`: a watch that names no time lasts between this and twice of it.
    pub watch_min: Duration,
}

impl Default for RequestTimes {
    /// kube-apiserver's.
    fn default() -> Self {
        RequestTimes { request: Duration::from_secs(60), watch_min: Duration::from_secs(1800) }
    }
}
