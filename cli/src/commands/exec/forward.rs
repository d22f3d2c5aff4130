//! `lw port-forward`: connections to ports of this machine, on to ports of a pod.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::IpAddr;
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::Client;
use listwatch_components::client::channels::{PORT, STDIN, STDOUT};
use listwatch_proto::resource::Object;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::target::{path, pod_of};
use crate::commands::failure::Failure;
use crate::commands::session::{Session, SessionArgs, kind_named};
use crate::terminal::tell;
use crate::usage::see;

/// What is read of a connection at a time.
const PIECE: usize = 32 << 10;

/// Lead connections to ports of this machine on to ports of a pod
///
/// Examples: lw port-forward web-0 8080:80; lw port-forward deploy/web :80; lw port-forward svc/web 8080:http
#[derive(Debug, Args)]
pub(crate) struct PortForwardArgs {
    /// POD or KIND/NAME, then LOCAL:REMOTE, PORT for the same on both sides, or :REMOTE for a free one here
    #[arg(value_name = "POD|KIND/NAME|PORT")]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// Address of this machine to listen on; may be given several times
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', default_value = "localhost")]
    address: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(args: &PortForwardArgs) -> Result<ExitCode, Failure> {
    let Some((word, ports)) = args.words.split_first().filter(|(_, ports)| !ports.is_empty()) else {
        let problem = "TYPE/NAME and list of ports are required for port-forward";
        return Err(Failure::usage(format!("{problem}\n{}", see("port-forward"))));
    };
    let session = Session::open(&args.session)?;
    let pod = pod_of(&session, word).await?;
    let service = service_of(&session, word).await?;
    let phase = pod.text(&["status", "phase"]);
    if phase != "Running" {
        return Err(Failure::plain(format!(
            "unable to forward port because pod is not running. Current status={phase}"
        )));
    }
    let mut listeners = Vec::new();
    for text in ports {
        let pair = parse(text, service.as_ref(), &pod).map_err(Failure::usage)?;
        listeners.extend(listen(&args.address, pair).await?);
    }
    serve(&session.client, &pod, listeners).await
}

/// The Service that is named, whose ports are not those of its pods.
async fn service_of(session: &Session, word: &str) -> Result<Option<Object>, Failure> {
    let Some((kind, name)) = word.split_once('/') else { return Ok(None) };
    let kind = kind_named(kind)?;
    if kind.kind != "Service" {
        return Ok(None);
    }
    Ok(Some(session.api(kind).get(&session.key(kind, name)).await?.object))
}

/// A port here (0: a free one) and one of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    local: u16,
    remote: u16,
}

/// `8080:80`, `80`, `:80`, and names of ports for the pod's side.
fn parse(text: &str, service: Option<&Object>, pod: &Object) -> Result<Pair, String> {
    let (local, remote) = text.split_once(':').unwrap_or((text, text));
    let number = remote.parse::<u16>().ok().filter(|number| *number > 0);
    let remote = match (service, number) {
        (Some(service), _) => port_of_service(service, remote, pod)?,
        (None, Some(number)) => number,
        (None, None) => port_named(pod, remote).ok_or_else(|| wrong(remote))?,
    };
    let local = match local {
        "" => 0,
        local => match local.parse() {
            Ok(number) => number,
            // A name stands for the same number on both sides.
            Err(_) if !text.contains(':') => remote,
            Err(_) => return Err(format!("error parsing local port '{local}': it is no number from 0 to 65535")),
        },
    };
    Ok(Pair { local, remote })
}

fn wrong(port: &str) -> String {
    format!("Pod does not have a named port '{port}'")
}

fn port_named(pod: &Object, name: &str) -> Option<u16> {
    let containers = pod.at(&["spec", "containers"]).and_then(Value::as_array);
    let mut ports = containers.into_iter().flatten().filter_map(|c| c["ports"].as_array()).flatten();
    let port = ports.find(|port| port["name"] == name)?;
    port["containerPort"].as_u64().and_then(|number| u16::try_from(number).ok())
}

/// The pod's port that a port of the Service leads to.
fn port_of_service(service: &Object, port: &str, pod: &Object) -> Result<u16, String> {
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array);
    let is_it = |entry: &&Value| {
        entry["name"] == port || entry["port"].as_u64().is_some_and(|number| port.parse() == Ok(number))
    };
    let entry = ports.into_iter().flatten().find(is_it);
    let entry = entry.ok_or_else(|| format!("Service {} does not have a service port {port}", service.name()))?;
    let target = if service.text(&["spec", "clusterIP"]) == "None" { &entry["port"] } else { &entry["targetPort"] };
    match target {
        Value::String(name) => port_named(pod, name).ok_or_else(|| wrong(name)),
        target => target.as_u64().and_then(|number| u16::try_from(number).ok()).ok_or_else(|| wrong(port)),
    }
}

/// Listens at each address; `localhost` is both of its own, as far as there are both.
async fn listen(addresses: &[String], pair: Pair) -> Result<Vec<(TcpListener, u16)>, Failure> {
    let mut listeners: Vec<(TcpListener, u16)> = Vec::new();
    let mut problems = Vec::new();
    let mut wanted: BTreeSet<IpAddr> = BTreeSet::new();
    for address in addresses {
        match address.as_str() {
            "localhost" => wanted.extend([IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])]),
            text => drop(wanted.insert(text.parse().map_err(|_| Failure::usage(format!("{text} is not a valid IP")))?)),
        }
    }
    let mut local = pair.local;
    for address in wanted {
        match TcpListener::bind((address, local)).await {
            Ok(listener) => {
                let here = listener.local_addr()?;
                // Both addresses of one port have one number.
                local = here.port();
                writeln!(io::stdout().lock(), "Forwarding from {here} -> {}", pair.remote)?;
                listeners.push((listener, pair.remote));
            }
            Err(error) => problems.push(format!("{address}:{local}: {error}")),
        }
    }
    if listeners.is_empty() {
        return Err(Failure::plain(format!(
            "unable to listen on any of the requested ports: [{pair}]: {}",
            problems.join("; "),
            pair = format_args!("{}:{}", pair.local, pair.remote)
        )));
    }
    Ok(listeners)
}

/// Takes connections until interrupted; each one ends alone.
async fn serve(client: &Client, pod: &Object, listeners: Vec<(TcpListener, u16)>) -> Result<ExitCode, Failure> {
    let mut accepting = JoinSet::new();
    for (listener, remote) in listeners {
        let (client, path) = (client.clone(), path(pod, "portforward", &format!("ports={remote}")));
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => {
                            let local = listener.local_addr().map_or(remote, |here| here.port());
                            drop(writeln!(io::stdout().lock(), "Handling connection for {local}"));
                            let (client, path) = (client.clone(), path.clone());
                            connections.spawn(async move {
                                if let Err(problem) = carry(&client, &path, stream).await {
                                    tell!("error: an error occurred forwarding {local} -> {remote}: {problem}");
                                }
                            });
                        }
                        Err(error) => return Failure::from(error),
                    },
                    Some(_) = connections.join_next() => {}
                }
            }
        });
    }
    match accepting.join_next().await {
        Some(Ok(failure)) => Err(failure),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// One connection, to its end on either side.
async fn carry(client: &Client, path: &str, mut stream: TcpStream) -> Result<(), String> {
    let (mut writer, mut reader) = client.channels(path, PORT).await.map_err(|error| Failure::from(error).text())?;
    let (mut from_here, mut to_here) = stream.split();
    let mut buffer = vec![0; PIECE];
    // The first message of either channel is the port's number again.
    let mut begun = [false, false];
    let ended = loop {
        tokio::select! {
            message = reader.next() => match message {
                // Who is connected here sees the end, however it comes.
                Ok(None) => break Ok(()),
                Err(_) if begun[usize::from(STDIN)] => break Ok(()),
                Err(error) => break Err(error.to_string()),
                Ok(Some((channel @ (STDIN | STDOUT), bytes))) => {
                    if !std::mem::replace(&mut begun[usize::from(channel)], true) {
                        continue;
                    }
                    if channel == STDOUT {
                        break Err(String::from_utf8_lossy(&bytes).into_owned());
                    }
                    to_here.write_all(&bytes).await.map_err(|error| error.to_string())?;
                }
                Ok(Some(_)) => {}
            },
            count = from_here.read(&mut buffer) => match count {
                Ok(0) | Err(_) => break Ok(()),
                Ok(count) => writer.send(STDIN, &buffer[..count]).await.map_err(|error| error.to_string())?,
            }
        }
    };
    writer.close().await;
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ports_are_read_as_kubectl_reads_them() {
        let object = |value: Value| Object::from_value(value).expect("a map");
        let pod = object(json!({
            "metadata": {"name": "web"},
            "spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
        }));
        let pair = |local, remote| Ok(Pair { local, remote });
        assert_eq!(parse("80", None, &pod), pair(80, 80));
        assert_eq!(parse("5000:80", None, &pod), pair(5000, 80));
        assert_eq!(parse(":80", None, &pod), pair(0, 80));
        assert_eq!(parse("5000:http", None, &pod), pair(5000, 8080));
        assert_eq!(parse("http", None, &pod), pair(8080, 8080));
        assert_eq!(parse("80:none", None, &pod), Err("Pod does not have a named port 'none'".to_owned()));
        assert!(parse("x:80", None, &pod).is_err());
        assert!(parse("80:70000", None, &pod).is_err());
        let service = object(json!({
            "metadata": {"name": "web"},
            "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "web", "port": 80, "targetPort": "http"}]},
        }));
        assert_eq!(parse("5000:80", Some(&service), &pod), pair(5000, 8080));
        assert_eq!(parse("5000:web", Some(&service), &pod), pair(5000, 8080));
        let missing = "Service web does not have a service port 81".to_owned();
        assert_eq!(parse("81", Some(&service), &pod), Err(missing));
    }
}
