//! What etcd clients rely on, asked of a real `lw server` over real gRPC, one test per rule that is easy to get wrong.
//!
//! `ETCD_ENDPOINT=http://HOST:PORT` asks another server instead, for example a real etcd, to check the tests themselves
//! (then run with `--test-threads=1`; tests that need a server of their own are left out).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends with what it met")]

mod health;
mod kv;
mod lease;
mod maintenance;
mod txn;
mod watch;
mod watch_progress;

use listwatch_integration_tests::Server;
use listwatch_integration_tests::etcd::Client;
use tonic::{Code, Status};

/// The server under test with a client on it.
struct Target {
    client: Client,
    /// A beginning for keys that no other test uses.
    prefix: String,
    /// `None` when another server is asked.
    server: Option<Server>,
    endpoint: String,
}

impl Target {
    /// A server for one test. The name keeps its keys apart.
    async fn start(name: &str) -> Target {
        let (server, endpoint) = match std::env::var("ETCD_ENDPOINT") {
            Ok(endpoint) => (None, endpoint),
            Err(_) => {
                let server = Server::start(&[]).expect("the server starts");
                let endpoint = server.endpoint();
                (Some(server), endpoint)
            }
        };
        let client = Client::connect(&endpoint).await.expect("the server answers");
        let prefix = format!("{name}-{}/", std::process::id());
        Target { client, prefix, server, endpoint }
    }

    /// Whether our own server is under test, which differs from etcd in a few intended ways.
    fn is_ours(&self) -> bool {
        self.server.is_some()
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// Fails unless the answer is this refusal.
#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, text: &str) {
    let status = answer.expect_err("must be refused");
    assert_eq!((status.code(), status.message()), (code, text));
}
