//! Strategic merge where its keys are too few.

use serde_json::json;

use crate::door::{Door, Speaks, over_both_doors, server};

over_both_doors!(row_33_a_strategic_merge_knows_ports_by_their_number_alone);

async fn row_33_a_strategic_merge_knows_ports_by_their_number_alone(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "pause", "ports": [{"containerPort": 53, "protocol": "TCP"}]}]},
            },
        },
    });
    let mut deployment = pod;
    deployment["apiVersion"] = json!("apps/v1");
    door.create("deployments", &deployment).await.expect("created");
    // The same number by another protocol is meant to be a second port; the merge key is the number, so it replaces it.
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "c", "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 80}]},
    ]}}}});
    let changed = door.patch("deployments", "a", "strategic-merge", patch).await.expect("patched");
    let ports = &changed["spec"]["template"]["spec"]["containers"][0]["ports"];
    let ports: Vec<_> =
        ports.as_array().expect("ports").iter().map(|p| (p["containerPort"].clone(), p["protocol"].clone())).collect();
    assert_eq!(ports, [(json!(53), json!("UDP")), (json!(80), json!("TCP"))], "as kube-apiserver 1.36 has it");
    Ok(())
}
