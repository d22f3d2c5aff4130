//! The Lease of the node in `kube-node-lease`: every renewal says that the kubelet lives (Kubernetes 1.36).

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use listwatch_proto::resource::{ObjectKey, micro_time};
use serde_json::json;

use crate::{
    client::{Api, Error, Patch},
    clock::SharedClock,
    runtime::{Backoff, BackoffPolicy},
};

/// The namespace of all node leases.
const NAMESPACE: &str = "kube-node-lease";

/// How many renewals are tried within the time that one is good for.
const RENEWALS: u32 = 4;

/// Pauses after a renewal that failed.
const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(200), factor: 2.0, cap: Duration::from_secs(7), jitter: 0.5 };

/// Renews the Lease of one node.
pub(in crate::kubelet) struct Heartbeat {
    pub(in crate::kubelet) api: Api<Lease>,
    pub(in crate::kubelet) node_name: String,
    pub(in crate::kubelet) node_uid: String,
    pub(in crate::kubelet) clock: SharedClock,
    /// How many seconds a renewal is good for.
    pub(in crate::kubelet) duration_seconds: i32,
}

impl Heartbeat {
    /// Renews for ever. Ends only by being dropped.
    pub(in crate::kubelet) async fn run(self) {
        let interval = Duration::from_secs(u64::from(self.duration_seconds.unsigned_abs())) / RENEWALS;
        let mut backoff = Backoff::new(RETRY);
        loop {
            let pause = match self.renew().await {
                Ok(()) => {
                    backoff.reset();
                    interval
                }
                Err(error) => {
                    tracing::debug!(node = self.node_name, %error, "the node's lease is not renewed");
                    backoff.next_delay()
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn renew(&self) -> Result<(), Error> {
        let key = ObjectKey::new(NAMESPACE, self.node_name.as_str());
        let spec = json!({
            "holderIdentity": self.node_name,
            "leaseDurationSeconds": self.duration_seconds,
            "renewTime": micro_time(self.clock.now()),
        });
        match self.api.patch(&key, &Patch::Merge(json!({ "spec": spec }))).await {
            Err(error) if error.is_not_found() => self.api.create(&self.lease()).await.map(drop),
            outcome => outcome.map(drop),
        }
    }

    fn lease(&self) -> Lease {
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node_name.clone(),
            uid: self.node_uid.clone(),
            ..OwnerReference::default()
        };
        Lease {
            metadata: ObjectMeta {
                namespace: Some(NAMESPACE.to_owned()),
                name: Some(self.node_name.clone()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.node_name.clone()),
                lease_duration_seconds: Some(self.duration_seconds),
                renew_time: Some(MicroTime(self.clock.now())),
                ..LeaseSpec::default()
            }),
        }
    }
}
