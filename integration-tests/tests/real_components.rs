//! Kubernetes' own scheduler and controller-manager in the place of ours: the chain from a Deployment to running pods, over
//! a kill of the server, with rolling update, scaling and deletion.
//!
//! They are looked for in the folder that `REAL_KUBERNETES` names, or in `~/real/bin`. Where they are missing the test says
//! so and passes: they take ten minutes to build, so no run demands them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use listwatch_integration_tests::{Cluster, eventually};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/myapp.yaml");
/// A leader of theirs that died holds its lease for 15 s, and their caches fill anew after that.
const LIMIT: Duration = Duration::from_secs(120);

/// A component of Kubernetes; killed when dropped.
struct Component(Child);

impl Drop for Component {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("REAL_KUBERNETES").map(PathBuf::from);
    let folder = named.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join("real/bin")))?;
    if folder.join("kube-scheduler").exists() && folder.join("kube-controller-manager").exists() {
        return Some(folder);
    }
    println!("SKIPPED: no kube-scheduler and kube-controller-manager in {}", folder.display());
    None
}

fn start(cluster: &Cluster, folder: &std::path::Path, name: &str) -> anyhow::Result<Component> {
    let kubeconfig = cluster.data_dir().join("kubeconfig");
    let log = std::fs::File::create(cluster.data_dir().join(format!("{name}.log")))?;
    let mut command = Command::new(folder.join(name));
    for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        command.arg(format!("--{flag}={}", kubeconfig.display()));
    }
    command.args(["--leader-elect=true", "--secure-port=0"]);
    let child = command.stdout(Stdio::null()).stderr(log).spawn().with_context(|| format!("start {name}"))?;
    Ok(Component(child))
}

async fn pods(cluster: &Cluster, count: usize, image: &str) {
    eventually(LIMIT, &format!("{count} pods of {image} run and no others"), || async {
        let pods = cluster.objects("pods").map_err(|error| error.to_string())?;
        let running = pods.iter().filter(|pod| {
            pod["status"]["phase"] == "Running"
                && pod["spec"]["containers"][0]["image"] == image
                && pod["metadata"]["deletionTimestamp"].is_null()
        });
        if running.count() == count && pods.len() == count { Ok(()) } else { Err(format!("{} pods", pods.len())) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_own_scheduler_and_controllers_run_the_chain() -> anyhow::Result<()> {
    let Some(folder) = folder() else { return Ok(()) };
    let cluster = Cluster::start(&["--schedulers", "0", "--controller-managers", "0"])?;
    let _scheduler = start(&cluster, &folder, "kube-scheduler")?;
    let _controllers = start(&cluster, &folder, "kube-controller-manager")?;
    cluster.lw(&["apply", "-f", EXAMPLE])?;
    pods(&cluster, 3, "soscscs/myapp:v1").await;

    cluster.lw(&["scale", "deployment/myapp", "--replicas", "8"])?;
    cluster.order(&["kill", "server"])?;
    pods(&cluster, 8, "soscscs/myapp:v1").await;

    cluster.lw(&["set", "image", "deployment/myapp", "myapp=soscscs/myapp:v2"])?;
    pods(&cluster, 8, "soscscs/myapp:v2").await;
    cluster.lw(&["rollout", "undo", "deployment/myapp"])?;
    pods(&cluster, 8, "soscscs/myapp:v1").await;

    cluster.lw(&["delete", "deployment", "myapp"])?;
    pods(&cluster, 0, "").await;
    eventually(LIMIT, "their garbage collector takes the sets", || async {
        match cluster.objects("replicasets") {
            Ok(sets) if sets.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    Ok(())
}
