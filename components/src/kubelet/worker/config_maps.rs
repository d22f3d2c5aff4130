//! The ConfigMaps that the pods of this node name, each followed by a watch of its own.
//!
//! Invariant: a ConfigMap is watched while some worker holds it, once however many do.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use k8s_openapi::api::core::v1::ConfigMap;
use listwatch_proto::resource::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::super::pod::facts::Lookup;
use crate::{
    client::{Client, Resource},
    runtime::{IndexerBuilder, Informer, ReflectorConfig, Store},
};

/// All that are watched.
pub(in crate::kubelet) struct ConfigMaps {
    client: Client,
    watched: Mutex<HashMap<ObjectKey, Weak<Watched>>>,
    /// Moves with every change of any of them.
    changes: watch::Sender<u64>,
}

/// One that is watched as long as somebody holds this.
pub(super) struct Watched {
    key: ObjectKey,
    store: Store<ConfigMap>,
    _feeder: AbortOnDropHandle<()>,
}

impl ConfigMaps {
    /// None is watched yet.
    pub(in crate::kubelet) fn new(client: &Client) -> Self {
        ConfigMaps { client: client.clone(), watched: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// Moves with every change of any of them.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Watches this one.
    pub(super) fn watch(&self, key: &ObjectKey) -> Arc<Watched> {
        let mut watched = self.watched.lock();
        if let Some(present) = watched.get(key).and_then(Weak::upgrade) {
            return present;
        }
        watched.retain(|_, held| held.strong_count() > 0);
        let config = ReflectorConfig {
            namespace: key.namespace.clone(),
            field_selector: format!("metadata.name={}", key.name),
            ..ReflectorConfig::default()
        };
        let mut informer = Informer::with(&self.client, ConfigMap::kind(), config, IndexerBuilder::new());
        let store = informer.store();
        let (changes, first) = (self.changes.clone(), self.changes.clone());
        informer.on_change(move |_| changes.send_modify(|n| *n += 1));
        let synced = store.clone();
        let feeder = tokio::spawn(async move {
            let told = async {
                // That there is none is news as well.
                if synced.wait_synced().await.is_ok() {
                    first.send_modify(|n| *n += 1);
                }
            };
            tokio::join!(informer.run(CancellationToken::new()), told);
        });
        let new = Arc::new(Watched { key: key.clone(), store, _feeder: AbortOnDropHandle::new(feeder) });
        watched.insert(key.clone(), Arc::downgrade(&new));
        new
    }
}

impl Watched {
    /// What is known of it.
    pub(super) fn look(&self) -> Lookup {
        if !self.store.progress().synced {
            return Lookup::NotSeen;
        }
        match self.store.get(&self.key) {
            Some(map) => Lookup::Found(Arc::new(map.object.clone())),
            None => Lookup::Absent,
        }
    }
}
