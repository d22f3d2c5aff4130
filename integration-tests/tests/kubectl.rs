//! Real kubectl against a whole cluster: what a person types every day.
//!
//! Where kubectl is not installed the test says so and passes.

use std::time::Duration;

use listwatch_integration_tests::eventually;
use listwatch_integration_tests::kubectl::{Shell, kubectl_is_there};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/myapp.yaml");
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn the_everyday_commands_work() -> anyhow::Result<()> {
    if !kubectl_is_there(0) {
        return Ok(());
    }
    let shell = Shell::start(&[])?;
    let nodes = shell.run(&["get", "nodes"]);
    assert!(nodes.starts_with("NAME     STATUS   ROLES    AGE"), "{nodes}");
    assert_eq!(nodes.lines().filter(|line| line.contains(" Ready ")).count(), 2, "{nodes}");

    assert_eq!(shell.run(&["apply", "-f", EXAMPLE]), "deployment.apps/myapp created\n");
    assert_eq!(shell.run(&["apply", "-f", EXAMPLE]), "deployment.apps/myapp unchanged\n");
    let rolled = shell.run(&["rollout", "status", "deployment/myapp", "--timeout=30s"]);
    assert!(rolled.ends_with("deployment \"myapp\" successfully rolled out\n"), "{rolled}");
    let pods = shell.run(&["get", "pods", "-o", "wide", "-l", "app=myapp", "--no-headers"]);
    let is_running = |line: &&str| line.split_whitespace().skip(1).take(2).eq(["1/1", "Running"]);
    assert_eq!(pods.lines().filter(is_running).count(), 3, "{pods}");

    // Sent as protobuf by kubectl 1.32 and later.
    assert_eq!(shell.run(&["create", "namespace", "dev"]), "namespace/dev created\n");
    let create = ["create", "configmap", "settings", "-n", "dev", "--from-literal=a=b"];
    assert_eq!(shell.run(&create), "configmap/settings created\n");
    let create = ["create", "deployment", "web", "-n", "dev", "--image=soscscs/myapp:v1", "--replicas=2"];
    assert_eq!(shell.run(&create), "deployment.apps/web created\n");
    shell.run(&["rollout", "status", "deployment/web", "-n", "dev", "--timeout=30s"]);
    assert_eq!(shell.run(&["delete", "namespace", "dev"]), "namespace \"dev\" deleted\n");
    assert!(shell.run(&["explain", "pod.spec.containers"]).contains("FIELD: containers <[]Container>"));

    // Strategic merge: the image of one container changes, everything else stays.
    let changed = shell.run(&["set", "image", "deployment/myapp", "myapp=soscscs/myapp:v2"]);
    assert_eq!(changed, "deployment.apps/myapp image updated\n");
    shell.run(&["rollout", "status", "deployment/myapp", "--timeout=30s"]);
    let image = shell.run(&["get", "deployment", "myapp", "-o", "jsonpath={.spec.template.spec.containers[*].image}"]);
    assert_eq!(image, "soscscs/myapp:v2");
    assert_eq!(shell.run(&["rollout", "undo", "deployment/myapp"]), "deployment.apps/myapp rolled back\n");
    shell.run(&["rollout", "status", "deployment/myapp", "--timeout=30s"]);

    assert_eq!(shell.run(&["scale", "deployment/myapp", "--replicas=2"]), "deployment.apps/myapp scaled\n");
    assert_eq!(shell.run(&["label", "node", "node01", "disk=ssd"]), "node/node01 labeled\n");
    assert_eq!(shell.run(&["cordon", "node01"]), "node/node01 cordoned\n");
    assert_eq!(shell.run(&["taint", "node", "node01", "k=v:PreferNoSchedule"]), "node/node01 tainted\n");
    let described = shell.run(&["describe", "node", "node01"]);
    assert!(
        described.contains("k=v:PreferNoSchedule") && described.contains("Unschedulable:      true"),
        "{described}"
    );
    assert_eq!(shell.run(&["uncordon", "node01"]), "node/node01 uncordoned\n");

    let missing = shell.refuse(&["get", "pod", "nosuch"]);
    assert_eq!(missing, "Error from server (NotFound): pods \"nosuch\" not found\n");
    let run = ["run", "hello", "--image=busybox", "--restart=Never", "--command", "--", "echo", "hello"];
    assert_eq!(shell.run(&run), "pod/hello created\n");
    eventually(LIMIT, "the pod has logged", || async {
        let logs = String::from_utf8_lossy(&shell.output(&["logs", "hello"]).stdout).into_owned();
        if logs == "hello\n" { Ok(()) } else { Err(logs) }
    })
    .await;
    assert_eq!(shell.run(&["delete", "pod", "hello"]), "pod \"hello\" deleted\n");
    let events = shell.run(&["get", "events", "--field-selector", "reason=ScalingReplicaSet", "--no-headers"]);
    assert!(events.contains("Scaled up replica set myapp-"), "{events}");
    assert_eq!(shell.run(&["delete", "deployment", "myapp", "--wait=true"]), "deployment.apps \"myapp\" deleted\n");
    shell.run(&["wait", "--for=delete", "pod", "-l", "app=myapp", "--timeout=30s"]);
    assert_eq!(shell.run(&["get", "pods", "-o", "name"]), "");
    Ok(())
}
