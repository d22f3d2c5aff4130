//! Objects of a server under test, by the names that people have for kinds.

use std::path::Path;

use listwatch_components::client::{Api, Client, load_kubeconfig};
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use serde_json::Value;

/// A client for objects of any kind.
#[derive(Debug)]
pub struct Objects(Client);

impl Objects {
    /// By the kubeconfig that the server has written.
    ///
    /// # Errors
    /// If there is none, or it does not read.
    pub fn of(kubeconfig: &Path) -> anyhow::Result<Self> {
        Ok(Objects(Client::new(&load_kubeconfig(kubeconfig, None)?.config)?))
    }

    /// The client itself.
    pub fn client(&self) -> &Client {
        &self.0
    }

    /// All objects of a kind: `pods`, `pdb`.
    ///
    /// # Panics
    /// If there is no such kind.
    pub fn api(&self, kind: &str) -> Api<Object> {
        Api::of_kind(&self.0, Kind::by_name(kind).expect("a served kind"))
    }

    /// Makes an object; gives it as it is stored.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn make(&self, kind: &str, value: Value) -> anyhow::Result<Object> {
        Ok(self.api(kind).create(&Object::from_value(value).expect("a map")).await?.object)
    }

    /// An object, if it is there.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn get(&self, kind: &str, key: &ObjectKey) -> Option<Object> {
        self.api(kind).get_opt(key).await.expect("the server answers").map(|cached| cached.object)
    }
}
