//! Strategic merge where its keys are too few, and apply, whose keys are enough.

use serde_json::{Value, json};

use crate::door::{Door, Speaks, over_both_doors, server};

over_both_doors!(
    row_33_a_strategic_merge_knows_ports_by_their_number_alone,
    row_33_an_apply_knows_ports_by_number_and_protocol,
);

fn deployment(ports: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "pause", "ports": ports}]},
            },
        },
    })
}

/// Number and protocol of each port of the first container.
fn ports(deployment: &Value) -> Vec<(Value, Value)> {
    let ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"].as_array().expect("ports");
    ports.iter().map(|port| (port["containerPort"].clone(), port["protocol"].clone())).collect()
}

async fn row_33_a_strategic_merge_knows_ports_by_their_number_alone(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    let made = deployment(json!([{"containerPort": 53, "protocol": "TCP"}]));
    door.create("deployments", &made).await.expect("created");
    // The same number by another protocol is meant to be a second port; the merge key is the number, so it replaces it.
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "c", "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 80}]},
    ]}}}});
    let changed = door.patch("deployments", "a", "strategic-merge", patch).await.expect("patched");
    let expected = [(json!(53), json!("UDP")), (json!(80), json!("TCP"))];
    assert_eq!(ports(&changed), expected, "as kube-apiserver 1.36 has it");
    Ok(())
}

async fn row_33_an_apply_knows_ports_by_number_and_protocol(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    let both = json!([{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]);
    let applied = door.patch("deployments", "a", "apply", deployment(both)).await.expect("applied");
    assert_eq!(ports(&applied), [(json!(53), json!("TCP")), (json!(53), json!("UDP"))]);
    // What is no longer applied goes, and the other of the same number stays.
    let one = json!([{"containerPort": 53, "protocol": "UDP"}]);
    let applied = door.patch("deployments", "a", "apply", deployment(one)).await.expect("applied");
    assert_eq!(ports(&applied), [(json!(53), json!("UDP"))]);
    let twice = json!([{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "UDP"}]);
    let refused = door.patch("deployments", "a", "apply", deployment(twice)).await.expect_err("one key twice");
    assert!(refused.message.contains("duplicate entries for key"), "{}", refused.message);
    Ok(())
}
