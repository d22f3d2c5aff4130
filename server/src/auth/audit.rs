//! The audit log: who did what, how it went, and at which revision (audit.k8s.io/v1, level Metadata).
//!
//! Invariants: a request never waits for the log; what does not fit into its queue is counted and told; secrets (tokens,
//! bodies) never enter it.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use http::{HeaderMap, Method, Uri, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

use crate::registry::{Asked, Attributes, User};

/// Events that wait for the disk: some seconds of a busy server. More are dropped and counted.
const QUEUE_MAX: usize = 4096;
/// How long an event may wait in memory once it is written.
const FLUSH_AFTER: Duration = Duration::from_millis(200);
/// What a client may say of itself.
const USER_AGENT_MAX: usize = 1024;

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditPath {
    /// Standard output (`-`).
    Stdout,
    /// A file, appended to.
    File(PathBuf),
}

impl From<&Path> for AuditPath {
    fn from(path: &Path) -> Self {
        if path.as_os_str() == "-" { AuditPath::Stdout } else { AuditPath::File(path.to_owned()) }
    }
}

/// The log cannot be opened.
#[derive(Debug, Error)]
#[error("--audit-log-path {}: {source}", .path.display())]
pub struct AuditError {
    path: PathBuf,
    source: io::Error,
}

/// The log. Dropping it writes what waits.
#[derive(Debug)]
pub struct AuditLog {
    sender: Option<SyncSender<String>>,
    writer: Option<JoinHandle<()>>,
    lost: AtomicU64,
}

impl AuditLog {
    /// Opens the log.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &AuditPath) -> Result<Self, AuditError> {
        let target: Box<dyn Write + Send> = match path {
            AuditPath::Stdout => Box::new(io::stdout()),
            AuditPath::File(path) => {
                let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
                Box::new(file.map_err(|source| AuditError { path: path.clone(), source })?)
            }
        };
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let writer = std::thread::spawn(move || write_all(&receiver, BufWriter::new(target)));
        Ok(AuditLog { sender: Some(sender), writer: Some(writer), lost: AtomicU64::new(0) })
    }

    /// Tells an event.
    pub(super) fn tell(&self, event: &Value) {
        let Some(sender) = &self.sender else { return };
        if let Err(TrySendError::Full(_)) = sender.try_send(event.to_string()) {
            let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
            if lost.is_power_of_two() {
                tracing::warn!(lost, "the audit log is slower than the requests: events are missing in it");
            }
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write_all(receiver: &Receiver<String>, mut target: impl Write) {
    let mut told = false;
    loop {
        let outcome = match receiver.recv_timeout(FLUSH_AFTER) {
            Ok(line) => writeln!(target, "{line}"),
            Err(RecvTimeoutError::Timeout) => target.flush(),
            Err(RecvTimeoutError::Disconnected) => {
                let _ = target.flush();
                return;
            }
        };
        if let Err(error) = outcome
            && !told
        {
            told = true;
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}

/// A request as it came, for the log.
#[derive(Debug)]
pub(super) struct Received {
    at: Timestamp,
    method: Method,
    uri: Uri,
    agent: String,
    address: Option<String>,
    /// Who asked, once that is known.
    pub(super) user: OnceLock<User>,
    /// As whom, if as somebody else.
    pub(super) acting_as: OnceLock<User>,
    /// What was asked, once that is known.
    pub(super) attributes: Arc<OnceLock<Attributes>>,
}

impl Received {
    pub(super) fn new(at: Timestamp, method: Method, uri: Uri, headers: &HeaderMap, address: Option<String>) -> Self {
        let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let agent = agent.chars().take(USER_AGENT_MAX).collect();
        let (user, acting_as, attributes) = Default::default();
        Received { at, method, uri, agent, address, user, acting_as, attributes }
    }

    /// Whether the request could change something.
    pub(super) fn is_write(&self) -> bool {
        self.attributes.get().is_some_and(|asked| !matches!(asked.verb.as_str(), "get" | "list" | "watch"))
    }

    /// The event of the answer. `revision`: where the store stood after a write.
    pub(super) fn event(&self, code: u16, revision: Option<i64>, now: Timestamp) -> Value {
        let asked = self.attributes.get();
        let verb = asked.map_or_else(|| self.method.as_str().to_ascii_lowercase(), |asked| asked.verb.clone());
        let stage = if verb == "watch" && code < 300 { "ResponseStarted" } else { "ResponseComplete" };
        let decision = if matches!(code, 401 | 403) { "forbid" } else { "allow" };
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
            "auditID": uuid::Uuid::new_v4().to_string(),
            "stage": stage,
            "requestURI": self.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str),
            "verb": verb,
            "user": self.user.get().map_or_else(|| json!({}), user_info),
            "sourceIPs": self.address.iter().collect::<Vec<_>>(),
            "userAgent": self.agent,
            "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": micro(self.at),
            "stageTimestamp": micro(now),
            "annotations": {"authorization.k8s.io/decision": decision},
        });
        if let Some(user) = self.acting_as.get() {
            event["impersonatedUser"] = user_info(user);
        }
        if let Some(Asked::Resource(asked)) = asked.map(|asked| &asked.asked) {
            let mut object = serde_json::Map::new();
            for (key, text) in [
                ("resource", &asked.resource),
                ("namespace", &asked.namespace),
                ("name", &asked.name),
                ("apiGroup", &asked.group),
                ("apiVersion", &asked.version),
                ("subresource", &asked.subresource),
            ] {
                if !text.is_empty() {
                    object.insert(key.to_owned(), text.as_str().into());
                }
            }
            event["objectRef"] = Value::Object(object);
        }
        if let Some(revision) = revision {
            event["annotations"]["listwatch/revision"] = revision.to_string().into();
        }
        event
    }
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

fn micro(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::ResourceAttributes;

    #[test]
    fn an_event_tells_who_did_what_and_how_it_went() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, "kubectl/v1".parse().unwrap());
        headers.insert(header::AUTHORIZATION, "Bearer secret".parse().unwrap());
        let uri = "/api/v1/namespaces/n/pods/p?x=1".parse().unwrap();
        let received = Received::new(at, Method::DELETE, uri, &headers, Some("127.0.0.1".into()));
        received.user.set(User { name: "alice".into(), ..User::default() }).unwrap();
        let asked = ResourceAttributes {
            resource: "pods".into(),
            namespace: "n".into(),
            name: "p".into(),
            version: "v1".into(),
            ..ResourceAttributes::default()
        };
        let attributes = Attributes { verb: "delete".into(), asked: Asked::Resource(asked) };
        received.attributes.set(attributes).unwrap();
        assert!(received.is_write());
        let event = received.event(200, Some(42), at);
        assert_eq!((&event["verb"], &event["user"]["username"]), (&json!("delete"), &json!("alice")));
        assert_eq!(event["objectRef"], json!({"resource": "pods", "namespace": "n", "name": "p", "apiVersion": "v1"}));
        assert_eq!(event["annotations"]["listwatch/revision"], "42");
        assert_eq!(event["requestReceivedTimestamp"], "2027-01-15T08:00:00.000000Z");
        assert!(!event.to_string().contains("secret"));
        assert_eq!(received.event(403, None, at)["annotations"]["authorization.k8s.io/decision"], "forbid");
    }

    #[test]
    fn what_was_told_is_in_the_file_when_the_log_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let log = AuditLog::open(&AuditPath::from(path.as_path())).unwrap();
        for number in 0..10 {
            log.tell(&json!({"number": number}));
        }
        drop(log);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 10);
        assert!(AuditLog::open(&AuditPath::File(dir.path().join("no/such"))).is_err());
        assert_eq!(AuditPath::from(Path::new("-")), AuditPath::Stdout);
    }
}
