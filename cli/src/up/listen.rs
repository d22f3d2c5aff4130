//! The supervisor's socket: takes orders, waits until they are carried out, answers.
//!
//! One task a connection, one order a connection. An order is handed to the supervisor's loop; whether it is carried out
//! is seen in the published status, so that the loop never waits for anybody.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use anyhow::Context;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot, watch},
};

use crate::cluster::{
    Layout,
    control::{Answer, ClusterStatus, Request},
};

/// An order is a short line; whoever sends more is cut off.
const REQUEST_BYTES_MAX: u64 = 4096;
/// How long an order may take to be carried out: less than the asker's patience.
const CARRY_OUT_LIMIT: Duration = Duration::from_secs(80);

/// An order on its way to the loop, which answers whether it takes it.
#[derive(Debug)]
pub(crate) struct Order {
    /// What is asked.
    pub(crate) request: Request,
    /// Taken, or why not. The component's full name comes back.
    pub(crate) taken: oneshot::Sender<Result<String, String>>,
}

/// Opens the socket; a left-over of a killed supervisor is replaced (the caller holds the cluster's lock).
///
/// # Errors
/// If the socket cannot be made.
pub(crate) fn bind(layout: &Layout) -> anyhow::Result<UnixListener> {
    let path = layout.control_socket();
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).with_context(|| format!("open {}", path.display()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Serves orders until the task is aborted.
pub(crate) async fn serve(listener: UnixListener, orders: mpsc::Sender<Order>, status: watch::Receiver<ClusterStatus>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(connection(stream, orders.clone(), status.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: UnixStream, orders: mpsc::Sender<Order>, mut status: watch::Receiver<ClusterStatus>) {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    if BufReader::new(read.take(REQUEST_BYTES_MAX)).read_line(&mut line).await.is_err() {
        return;
    }
    let outcome = match serde_json::from_str::<Request>(&line) {
        Ok(request) => carry_out(request, &orders, &mut status).await,
        Err(error) => Err(format!("not an order: {error}")),
    };
    let answer = match outcome {
        Ok(status) => Answer { error: None, status: Some(status) },
        Err(error) => Answer { error: Some(error), status: None },
    };
    let mut text = serde_json::to_string(&answer).expect("plain data serializes");
    text.push('\n');
    let _ = write.write_all(text.as_bytes()).await;
}

fn is_server(name: &str) -> bool {
    name == "server"
}

async fn carry_out(
    request: Request,
    orders: &mpsc::Sender<Order>,
    status: &mut watch::Receiver<ClusterStatus>,
) -> Result<ClusterStatus, String> {
    let gone = || "the cluster is going down".to_owned();
    let wanted = match &request {
        Request::Status | Request::Kill(_) | Request::Down => None,
        Request::Start(_) | Request::Restart(_) => Some("Running"),
        Request::Stop(_) => Some("Stopped"),
    };
    let (taken, answer) = oneshot::channel();
    orders.send(Order { request, taken }).await.map_err(|_| gone())?;
    let name = answer.await.map_err(|_| gone())??;
    let Some(wanted) = wanted else { return Ok(status.borrow().clone()) };
    let reached = status.wait_for(|s| {
        // A component without a server gets ready only when somebody starts the server: that is not waited for.
        let hopeless = wanted == "Running" && !is_server(&name) && s.component("server").is_none_or(|c| c.pid == 0);
        s.stopping || s.component(&name).is_none_or(|c| c.state == wanted || (hopeless && c.state == "Starting"))
    });
    let outcome = tokio::time::timeout(CARRY_OUT_LIMIT, reached).await;
    match outcome.map(|reached| reached.map(|now| now.clone())) {
        Ok(Ok(now)) if now.stopping => Err(gone()),
        Ok(Ok(now)) if now.component(&name).is_some_and(|c| c.state != wanted) => {
            Err(format!("{name} was started and waits for the server, which is stopped: `lw start server`"))
        }
        Ok(Ok(now)) => Ok(now),
        Ok(Err(_)) => Err(gone()),
        Err(_) => {
            let now = status.borrow().clone();
            let state = now.component(&name).map_or_else(String::new, |c| format!("{} {}", c.state, c.last_exit));
            Err(format!("{name} did not get {wanted} within {CARRY_OUT_LIMIT:?}: {}", state.trim_end()))
        }
    }
}
