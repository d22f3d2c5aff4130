//! Owners that are no owners: what the garbage collector makes of them, every time anew.

use listwatch_components::client::{Api, Client, DeleteParams, Propagation, load_kubeconfig};
use listwatch_integration_tests::{eventually, plane::Plane};
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use serde_json::{Value, json};

use crate::door::LIMIT;

struct Bed {
    plane: Plane,
    api: Api<Object>,
    cluster: Api<Object>,
}

impl Bed {
    fn start() -> anyhow::Result<Bed> {
        let plane = Plane::start(&[])?;
        let client = Client::new(&load_kubeconfig(&plane.kubeconfig(), None)?.config)?;
        let api = |kind| Api::of_kind(&client, Kind::by_name(kind).expect("a served kind"));
        Ok(Bed { api: api("configmaps"), cluster: api("priorityclasses"), plane })
    }

    /// A ConfigMap of an owner: `(name, uid)`.
    async fn make(&self, namespace: &str, name: &str, owner: Option<(&str, &str)>) -> anyhow::Result<Object> {
        let owners = owner.map_or(Value::Null, |(name, uid)| reference(name, uid));
        let metadata = json!({"namespace": namespace, "name": name, "ownerReferences": owners});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        Ok(self.api.create(&Object::from_value(object).expect("a map")).await?.object)
    }

    async fn delete(&self, name: &str, propagation: Propagation) -> anyhow::Result<()> {
        let params = DeleteParams { propagation, ..DeleteParams::any() };
        self.api.delete(&ObjectKey::new("default", name), &params).await?;
        Ok(())
    }

    async fn is_there(&self, namespace: &str, name: &str) -> bool {
        let found = self.api.get_opt(&ObjectKey::new(namespace, name)).await;
        found.expect("the server answers").is_some()
    }

    async fn gone(&self, namespace: &str, name: &str) {
        eventually(LIMIT, &format!("{namespace}/{name} is gone"), || async {
            if self.is_there(namespace, name).await { Err("it is there") } else { Ok(()) }
        })
        .await;
    }
}

fn reference(name: &str, uid: &str) -> Value {
    json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}])
}

#[tokio::test(flavor = "multi_thread")]
async fn row_32_only_what_has_lost_its_owner_goes_and_always_the_same() -> anyhow::Result<()> {
    let mut bed = Bed::start()?;
    let owner = bed.make("default", "owner", None).await?;
    let uid = owner.uid();
    // They live for as long as nobody says that their owner is gone.
    bed.make("default", "mine", Some(("owner", uid))).await?;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5,
        "metadata": {"name": "unclear", "ownerReferences": reference("owner", uid)}});
    bed.cluster.create(&Object::from_value(class).expect("a map")).await?;
    for round in 0..3 {
        match round {
            0 => {}
            1 => {
                bed.plane.kill_manager();
                bed.plane.start_manager()?;
            }
            _ => bed.plane.kill_and_restart()?,
        }
        // An owner is in the same namespace or has none; with another uid it is another object.
        bed.make("kube-public", "stray", Some(("owner", uid))).await?;
        bed.make("default", "forged", Some(("owner", "00000000-0000-4000-8000-000000000000"))).await?;
        bed.make("default", "nobodys", Some(("missing", uid))).await?;
        bed.gone("kube-public", "stray").await;
        bed.gone("default", "forged").await;
        bed.gone("default", "nobodys").await;

        // Nobody looks while the owner is replaced by one of its name: what belonged to the old one goes, not what
        // belongs to the new one.
        let old = bed.make("default", "replaced", None).await?;
        bed.make("default", "of-old", Some(("replaced", old.uid()))).await?;
        bed.plane.kill_manager();
        bed.delete("replaced", Propagation::Background).await?;
        let new = bed.make("default", "replaced", None).await?;
        bed.make("default", "of-new", Some(("replaced", new.uid()))).await?;
        bed.plane.start_manager()?;
        bed.gone("default", "of-old").await;

        for name in ["owner", "mine", "replaced", "of-new"] {
            assert!(bed.is_there("default", name).await, "{name}, round {round}");
        }
        let unclear = bed.cluster.get_opt(&ObjectKey::new("", "unclear")).await?;
        assert!(unclear.is_some(), "nobody can say whether it has an owner, round {round}");
        bed.delete("replaced", Propagation::Background).await?;
        bed.gone("default", "of-new").await;
    }
    Ok(())
}
