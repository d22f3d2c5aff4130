//! What probes and hooks do to a container: a command in its place, a request, a connection, a pause.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use listwatch_proto::go_quote::quote;
use tokio::{net::TcpStream, time::timeout};

use super::{
    super::pod::probe::{Action, Get},
    Context,
};
use crate::clock::timer_now;

/// How an action went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Done {
    /// Well.
    Good,
    /// Badly, and why.
    Bad(String),
    /// It could not be done at all, which says nothing of the container.
    Unknown(String),
}

/// The container that is meant.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The pod.
    pub(super) uid: String,
    /// The container.
    pub(super) container: String,
    /// Address of the pod.
    pub(super) ip: String,
}

/// Does it, within the time. A command that takes longer is killed.
pub(super) async fn act(context: &Context, target: &Target, action: &Action, limit: Duration) -> Done {
    if context.runtime.is_simulation() {
        return Done::Good;
    }
    match action {
        Action::Exec(command) => exec(context, target, command, limit).await,
        Action::Http(get) => http_get(context, target, get, limit).await,
        Action::Tcp { host, port } => {
            let (host, port) = place(context, target, host, *port);
            match connect(&host, port, limit).await {
                Ok(_) => Done::Good,
                Err(why) => Done::Bad(why),
            }
        }
        Action::Sleep(time) => {
            tokio::time::sleep((*time).min(limit)).await;
            Done::Good
        }
    }
}

async fn exec(context: &Context, target: &Target, command: &[String], limit: Duration) -> Done {
    let running = context.runtime.exec(&target.uid, &target.container, command);
    match timeout(limit, running).await {
        Err(_) => {
            let seconds = limit.as_secs_f64();
            Done::Bad(format!("command timed out: {} timed out after {seconds}s", quote(&command.join(" "))))
        }
        Ok(Ok(output)) if output.code == 0 => Done::Good,
        Ok(Ok(output)) => Done::Bad(output.text),
        Ok(Err(error)) => Done::Unknown(error.to_string()),
    }
}

async fn http_get(context: &Context, target: &Target, get: &Get, limit: Duration) -> Done {
    let (host, port) = place(context, target, &get.host, get.port);
    let url = format!("http://{host}:{port}{}", get.path);
    let begin = timer_now();
    let stream = match connect(&host, port, limit).await {
        Ok(stream) => stream,
        Err(why) => return Done::Bad(format!("Get {url}: {why}", url = quote(&url))),
    };
    let status = timeout(limit.saturating_sub(begin.elapsed()), request(stream, &host, port, get)).await;
    match status {
        Err(_) => Done::Bad(format!(
            "Get {}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
            quote(&url)
        )),
        Ok(Err(why)) => Done::Bad(format!("Get {url}: {why}", url = quote(&url))),
        Ok(Ok(status)) if (200..400).contains(&status) => Done::Good,
        Ok(Ok(status)) => Done::Bad(format!("HTTP probe failed with statuscode: {status}")),
    }
}

/// Asks for the page and gives the status of the answer.
async fn request(stream: TcpStream, host: &str, port: u16, get: &Get) -> Result<u16, String> {
    let mut request = Request::get(&get.path)
        .header(header::USER_AGENT, "kube-probe/1.36")
        .header(header::ACCEPT, "*/*")
        .header(header::CONNECTION, "close");
    if !get.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request = request.header(header::HOST, format!("{host}:{port}"));
    }
    for (name, value) in &get.headers {
        request = request.header(name, value);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let text = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let answered = sender.send_request(request);
    tokio::pin!(connection, answered);
    tokio::select! {
        answer = &mut answered => answer.map(|answer| answer.status().as_u16()).map_err(text),
        ended = &mut connection => match ended {
            // The answer may be there although the connection is over.
            Ok(()) => answered.await.map(|answer| answer.status().as_u16()).map_err(text),
            Err(error) => Err(text(error)),
        },
    }
}

async fn connect(host: &str, port: u16, limit: Duration) -> Result<TcpStream, String> {
    let address = match host.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port).to_string(),
        Err(_) => format!("{host}:{port}"),
    };
    match timeout(limit, TcpStream::connect(&address)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err(format!("dial tcp {address}: connect: connection refused"))
        }
        Ok(Err(error)) => Err(format!("dial tcp {address}: {error}")),
        Err(_) => Err(format!("dial tcp {address}: i/o timeout")),
    }
}

/// Where the container really listens: a port that it could not have was replaced.
fn place(context: &Context, target: &Target, host: &str, port: u16) -> (String, u16) {
    if !host.is_empty() {
        return (host.to_owned(), port);
    }
    let ports = context.runtime.ports(&target.uid, &target.container);
    (target.ip.clone(), ports.get(&port).copied().unwrap_or(port))
}
