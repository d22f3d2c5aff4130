//! Which objects a command is about: by kind and name, by labels, all of a kind, or as files name them.
//!
//! Invariant: one that cannot be read does not hold up the others; what was wrong is told with what was found.

use listwatch_components::client::ListParams;
use listwatch_proto::resource::{Kind, Object, ObjectKey};

use super::failure::Failure;
use super::manifest::FileArgs;
use super::session::{Session, parse_targets};

/// An object of the server.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) kind: &'static Kind,
    pub(crate) object: Object,
}

impl Chosen {
    pub(crate) fn key(&self) -> ObjectKey {
        self.object.key()
    }
}

/// How objects are named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Naming<'a> {
    pub(crate) words: &'a [String],
    pub(crate) files: &'a FileArgs,
    /// Labels; empty: any.
    pub(crate) labels: &'a str,
    /// Fields; empty: any.
    pub(crate) fields: &'a str,
    /// A kind without a name means all of it.
    pub(crate) all: bool,
}

/// What was found, and what was not.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) chosen: Vec<Chosen>,
    pub(crate) failures: Vec<Failure>,
}

impl Naming<'_> {
    /// Whether anything is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.files.is_empty()
    }

    /// Reads the objects from the server, in the order they are named.
    ///
    /// # Errors
    /// When the words make no sense, so that nothing was asked for.
    pub(crate) async fn find(&self, session: &Session, deed: &str) -> Result<Found, Failure> {
        let mut found = Found::default();
        for manifest in self.files.read(session, deed) {
            match manifest {
                Ok(manifest) => found.read(session, manifest.kind, &manifest.key()).await,
                Err(failure) => found.failures.push(failure),
            }
        }
        for target in parse_targets(self.words)? {
            let kind = target.kind;
            if !target.names.is_empty() {
                if !self.labels.is_empty() {
                    return Err(Failure::usage("name cannot be provided when a selector is specified"));
                }
                if kind.namespaced && session.namespace.is_empty() {
                    return Err(Failure::usage("a resource cannot be retrieved by name across all namespaces"));
                }
                for name in &target.names {
                    found.read(session, kind, &session.key(kind, name)).await;
                }
                continue;
            }
            if !self.all && self.labels.is_empty() && self.fields.is_empty() {
                return Err(Failure::usage("resource(s) were provided, but no name was specified"));
            }
            let params = ListParams::in_namespace(session.namespace_of(kind)).labels(self.labels).fields(self.fields);
            match session.api(kind).list(&params).await {
                Ok(list) => {
                    found.chosen.extend(list.items.into_iter().map(|cached| Chosen { kind, object: cached.object }))
                }
                Err(error) => found.failures.push(error.into()),
            }
        }
        Ok(found)
    }
}

impl Found {
    async fn read(&mut self, session: &Session, kind: &'static Kind, key: &ObjectKey) {
        match session.api(kind).get(key).await {
            Ok(cached) => self.chosen.push(Chosen { kind, object: cached.object }),
            Err(error) => self.failures.push(session.explain_missing(kind, error).await.into()),
        }
    }
}
