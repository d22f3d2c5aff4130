//! The service `kubernetes` in `default`, at which the API itself is reached from within the cluster, its endpoints, and
//! the ServiceCIDR that tells the server's own range (Kubernetes 1.36).
//!
//! As in upstream the service is made when it is missing and not touched after that; its endpoints follow the server.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use listwatch_proto::resource::{Kind, Object, Status, time};
use serde_json::{Value, json};
use tracing::warn;

use crate::registry::Registry;
use crate::registry::kinds::strategy;
use crate::registry::stored::encode;
use crate::registry::{Guard, Write};
use crate::storage::Origin;

/// The port of the service.
const PORT: u16 = 443;

/// Where the server's own API is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiService {
    /// The TLS port.
    pub port: u16,
    /// The address that pods can reach; `None` = the server listens on none that they could, so the service has no
    /// endpoints.
    pub address: Option<IpAddr>,
}

impl Registry {
    /// Writes the service and what belongs to it, unless they are there.
    pub(in crate::registry) async fn write_api_service(&self) -> Result<(), Status> {
        let Some(api) = self.shared.options.api_service else { return Ok(()) };
        self.write_service_range().await?;
        let mut service = service(api.port);
        let Some(range) = self.shared.options.pools.addresses.first() else { return Ok(()) };
        service.set(&["spec", "clusterIP"], range.nth(0).to_string());
        let kind = kind_of(&service);
        strategy(kind).default(&mut service);
        let key = Bytes::from(kind.key("default", "kubernetes"));
        if self.shared.store.get(&key).await?.0.is_none() {
            match self.allot(kind, &mut service, None, false).await {
                Ok(()) => drop(self.write_once(kind, service).await?),
                // Somebody has taken the address; the cluster works without the service.
                Err(status) => warn!(why = %status.message, "the service of the API itself cannot be made"),
            }
        }
        if let Some(address) = api.address {
            let address = SocketAddr::new(address, api.port);
            for object in [endpoints(address), endpoint_slice(address)] {
                self.follow(object).await?;
            }
        }
        Ok(())
    }

    async fn write_service_range(&self) -> Result<(), Status> {
        let cidrs: Vec<String> = self.shared.options.pools.addresses.iter().map(ToString::to_string).collect();
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready",
            "lastTransitionTime": time(self.now()),
        });
        let range = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": cidrs}, "status": {"conditions": [ready]},
        });
        let range = Object::from_value(range).expect("a literal map");
        self.write_once(kind_of(&range), range).await
    }

    /// Writes an object with what it holds, unless it is there.
    async fn write_once(&self, kind: &'static Kind, mut object: Object) -> Result<(), Status> {
        let key = Bytes::from(kind.key(object.namespace(), object.name()));
        if self.shared.store.get(&key).await?.0.is_some() {
            return Ok(());
        }
        object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
        object.set(&["metadata", "creationTimestamp"], time(self.now()));
        let mut beside = self.exchange(kind, None, Some(&object));
        beside.guards.push(Guard { key: key.clone(), mod_revision: 0 });
        let mut writes = vec![Write::Put { key, value: encode(&object), lease: 0 }];
        writes.extend(beside.writes);
        // Refused means that another server has just written it, which is as good.
        self.shared.store.commit(beside.guards, writes, &Origin::user("system:registry")).await?;
        Ok(())
    }

    /// Writes an object, or all but the metadata of one that is there and says otherwise.
    async fn follow(&self, object: Object) -> Result<(), Status> {
        let kind = kind_of(&object);
        let Some(current) = self.current(kind, object.namespace(), object.name()).await? else {
            return self.write_once(kind, object).await;
        };
        let mut new = object;
        if let Some(metadata) = current.object.0.get("metadata") {
            new.0.insert("metadata".to_owned(), metadata.clone());
        }
        if new == current.object {
            return Ok(());
        }
        let write = Write::Put { key: current.key.clone(), value: encode(&new), lease: 0 };
        let origin = Origin::user("system:registry");
        self.shared.store.commit(vec![current.guard()], vec![write], &origin).await?;
        Ok(())
    }
}

fn kind_of(object: &Object) -> &'static Kind {
    Kind::by_api_version(object.api_version(), object.kind_name()).expect("a served kind")
}

fn literal(value: Value) -> Object {
    Object::from_value(value).expect("a literal map")
}

fn service(port: u16) -> Object {
    literal(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP", "sessionAffinity": "None", "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": PORT, "protocol": "TCP", "targetPort": port}],
        },
        "status": {"loadBalancer": {}},
    }))
}

fn endpoints(address: SocketAddr) -> Object {
    literal(json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address.ip().to_string()}],
            "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}]}],
    }))
}

fn endpoint_slice(address: SocketAddr) -> Object {
    literal(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "kubernetes", "namespace": "default", "generation": 1,
            "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address.ip().to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
    }))
}
