//! The driver: one set of questions for both doors.

use std::time::Duration;

use listwatch_integration_tests::Server;
use listwatch_proto::resource::{Kind, Status};
use serde_json::{Value, json};

use crate::grpc::{self, Grpc};
use crate::rest::{self, Rest};

/// Within this time everything asked here is answered, also on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Which door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Rest,
    Grpc,
}

/// A client of one door, allowed everything.
#[derive(Clone)]
pub(crate) enum Door {
    Rest(Rest),
    Grpc(Grpc),
}

/// Makes a test of each case for each door.
macro_rules! over_both_doors {
    ($($case:ident),+ $(,)?) => {
        mod over_rest {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() -> anyhow::Result<()> {
                super::$case(crate::door::Speaks::Rest).await
            })+
        }
        mod over_grpc {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() -> anyhow::Result<()> {
                super::$case(crate::door::Speaks::Grpc).await
            })+
        }
    };
}
pub(crate) use over_both_doors;

/// A server that both doors reach without proof of identity.
pub(crate) fn server() -> anyhow::Result<Server> {
    Server::start(&["--insecure-resource-port", "0"])
}

/// What a list is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    pub(crate) labels: &'static str,
    pub(crate) limit: i64,
    pub(crate) token: String,
    /// Not older than this; 0 = the latest.
    pub(crate) at_least: i64,
    /// Exactly this one; 0 = not asked for.
    pub(crate) exactly: i64,
    /// Whatever the server has at hand (`resourceVersion=0`); over gRPC there is nothing older than the latest.
    pub(crate) any: bool,
}

/// A collection at a revision.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) items: Vec<Value>,
    pub(crate) revision: i64,
    pub(crate) token: String,
}

/// What a watch is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Follow {
    pub(crate) labels: &'static str,
    /// Events above this revision; 0 = from now on, or behind the state.
    pub(crate) above: i64,
    /// First the state.
    pub(crate) state: bool,
    /// Told within a second how far the stream has come; over REST such a stream ends after three.
    pub(crate) impatient: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Added,
    Modified,
    Deleted,
    Bookmark,
}

/// An event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) what: What,
    pub(crate) revision: i64,
    /// Null in a bookmark.
    pub(crate) object: Value,
    /// A bookmark: the state is complete.
    pub(crate) complete: bool,
}

impl Event {
    pub(crate) fn name(&self) -> &str {
        name(&self.object)
    }

    pub(crate) fn facts(&self) -> (What, String, i64) {
        (self.what, self.name().to_owned(), self.revision)
    }
}

/// An open watch.
pub(crate) enum Watch {
    Rest(rest::Lines),
    Grpc(grpc::Messages),
}

impl Door {
    pub(crate) async fn to(server: &Server, speaks: Speaks) -> Door {
        let address = server.address("insecure");
        match speaks {
            Speaks::Rest => Door::Rest(Rest { address }),
            Speaks::Grpc => Door::Grpc(Grpc::connect(address).await),
        }
    }

    pub(crate) async fn create(&self, kind: &str, body: &Value) -> Result<Value, Status> {
        let kind = known(kind);
        let namespace = body["metadata"]["namespace"].as_str().unwrap_or_default();
        match self {
            Door::Rest(rest) => rest.create(kind, namespace, body).await,
            Door::Grpc(grpc) => grpc.create(kind, namespace, body).await,
        }
    }

    pub(crate) async fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        match self {
            Door::Rest(rest) => rest.get(known(kind), namespace, name).await,
            Door::Grpc(grpc) => grpc.get(known(kind), namespace, name).await,
        }
    }

    pub(crate) async fn update(&self, kind: &str, body: &Value) -> Result<Value, Status> {
        let (namespace, name) = (body["metadata"]["namespace"].as_str().unwrap_or_default(), name(body));
        match self {
            Door::Rest(rest) => rest.update(known(kind), namespace, name, body).await,
            Door::Grpc(grpc) => grpc.update(known(kind), namespace, name, body).await,
        }
    }

    /// A merge patch in the namespace `default`.
    pub(crate) async fn merge(&self, kind: &str, name: &str, patch: Value) -> Result<Value, Status> {
        self.patch(kind, name, "merge", patch).await
    }

    /// A patch, `merge`, `strategic-merge` or `apply` (as the manager `test`), in the namespace `default`.
    pub(crate) async fn patch(&self, kind: &str, name: &str, form: &str, patch: Value) -> Result<Value, Status> {
        match self {
            Door::Rest(rest) => rest.patch(known(kind), name, form, &patch).await,
            Door::Grpc(grpc) => grpc.patch(known(kind), name, form, &patch).await,
        }
    }

    /// Deletes at once, in the namespace `default`.
    pub(crate) async fn delete(&self, kind: &str, name: &str) -> Result<(), Status> {
        match self {
            Door::Rest(rest) => rest.delete(known(kind), name).await,
            Door::Grpc(grpc) => grpc.delete(known(kind), name).await,
        }
    }

    pub(crate) async fn list(&self, kind: &str, namespace: &str, read: Read) -> Result<Listed, Status> {
        match self {
            Door::Rest(rest) => rest.list(known(kind), namespace, &read).await,
            Door::Grpc(grpc) => grpc.list(known(kind), namespace, &read).await,
        }
    }

    pub(crate) async fn watch(&self, kind: &str, namespace: &str, follow: Follow) -> Result<Watch, Status> {
        self.watch_kind(known(kind), namespace, follow).await
    }

    pub(crate) async fn watch_kind(
        &self,
        kind: &'static Kind,
        namespace: &str,
        follow: Follow,
    ) -> Result<Watch, Status> {
        match self {
            Door::Rest(rest) => rest.watch(kind, namespace, &follow).await.map(Watch::Rest),
            Door::Grpc(grpc) => grpc.watch(kind, namespace, &follow).await.map(Watch::Grpc),
        }
    }

    /// Where the store stands, as far as a list of namespaces tells.
    pub(crate) async fn revision(&self) -> i64 {
        self.list("namespaces", "", Read { limit: 1, ..Read::default() }).await.expect("a list").revision
    }
}

impl Watch {
    /// The next event; `None` at a clean end.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Status> {
        let next = async {
            match self {
                Watch::Rest(lines) => lines.next().await,
                Watch::Grpc(messages) => messages.next().await,
            }
        };
        tokio::time::timeout(LIMIT, next).await.expect("an event within the limit")
    }

    /// The next event that is no bookmark.
    pub(crate) async fn event(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("no error").expect("no end");
            if event.what != What::Bookmark {
                return event;
            }
        }
    }

    /// The events up to the bookmark that says that the state is complete, and that bookmark's revision.
    pub(crate) async fn state(&mut self) -> Result<(Vec<Event>, i64), Status> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await?.expect("no end before the state is complete");
            if event.complete {
                return Ok((events, event.revision));
            }
            events.push(event);
        }
    }
}

fn known(kind: &str) -> &'static Kind {
    Kind::by_name(kind).expect("a served kind")
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The revision of the last write of an object.
pub(crate) fn revision(object: &Value) -> i64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a resourceVersion")
}

/// A ConfigMap in the namespace `default`.
pub(crate) fn config_map(name: &str, labels: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default", "labels": labels});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}})
}

/// A Pod in the namespace `default`.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "pause"}]},
    })
}
