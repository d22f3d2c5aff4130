//! The commands that steer and watch: rollout, set image, scale, wait, logs, completion, against a whole cluster. Words
//! and exit codes are kubectl 1.36's.
//!
//! One cluster serves all, since a cluster takes seconds to start; each part works in a namespace of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use listwatch_integration_tests::cluster::LIMIT;
use listwatch_integration_tests::{Cluster, binary, eventually};

const LOOM: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: loom
  annotations: {kubernetes.io/change-cause: start here}
spec:
  replicas: 2
  selector: {matchLabels: {t: loom}}
  template:
    metadata: {labels: {t: loom}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: a, image: 'soscscs/myapp:v1'}
";

const PAIR: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: pair, labels: {t: pair}}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: first, image: pause, command: [sh, -c, 'echo made']}
  containers:
  - {name: one, image: pause, command: [sh, -c, 'echo a; echo b; echo c; exec sleep 3600']}
  - {name: two, image: pause, command: [sh, -c, 'echo d; exec sleep 3600']}
";

/// What a command has said.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    out: String,
    err: String,
    code: i32,
}

/// A person in one namespace.
struct Shell<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
}

impl Shell<'_> {
    fn command(&self, args: &str) -> Command {
        let mut command = Command::new(binary::lw());
        command.args(args.split_whitespace()).args(["-n", self.namespace]);
        command.env("LW_KUBECONFIG", self.cluster.data_dir().join("kubeconfig"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &str) -> Said {
        said(self.command(args).spawn().expect("lw starts"))
    }

    fn begin(&self, args: &str) -> Child {
        self.command(args).spawn().expect("lw starts")
    }

    #[track_caller]
    fn ok(&self, args: &str, out: &str) {
        let said = self.run(args);
        assert_eq!((said.out.as_str(), said.err.as_str(), said.code), (out, "", 0), "lw {args}");
    }

    #[track_caller]
    fn refuse(&self, args: &str, err: &str) {
        let said = self.run(args);
        assert_eq!((said.out.as_str(), said.err.as_str(), said.code), ("", err, 1), "lw {args}");
    }

    #[track_caller]
    fn wrong_usage(&self, args: &str, err: &str) {
        let said = self.run(args);
        assert!(said.code == 1 && said.err.starts_with(err), "lw {args}: {said:?}");
    }

    /// Applies a manifest in this namespace.
    fn apply(&self, manifest: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("manifest.yaml");
        std::fs::write(&path, manifest).expect("a writable folder");
        let said = self.run(&format!("apply -f {}", path.display()));
        assert_eq!(said.code, 0, "{said:?}");
    }

    /// The last line of a rollout that is waited for.
    #[track_caller]
    fn rolled_out(&self, deployment: &str) {
        let said = self.run(&format!("rollout status {deployment} --timeout=60s"));
        let done = format!("deployment \"{}\" successfully rolled out", deployment.trim_start_matches("deploy/"));
        assert_eq!((said.out.lines().last(), said.code), (Some(done.as_str()), 0), "{said:?}");
        assert!(said.out.lines().rev().skip(1).all(|line| line.starts_with("Waiting for deployment ")), "{said:?}");
        let mut lines: Vec<_> = said.out.lines().collect();
        lines.dedup();
        assert_eq!(lines.len(), said.out.lines().count(), "a stage is said once: {said:?}");
    }
}

fn said(child: Child) -> Said {
    let output = child.wait_with_output().expect("lw ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("an exit code");
    Said { out: text(output.stdout), err: text(output.stderr), code }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_steers_and_watches_a_cluster() -> anyhow::Result<()> {
    let cluster = Cluster::start(&[])?;
    for namespace in ["rollout", "image", "scale", "wait", "logs"] {
        cluster.lw(&["create", "namespace", namespace])?;
    }
    let shell = |namespace| Shell { cluster: &cluster, namespace };
    rollouts(&shell("rollout"));
    paused_and_late(&shell("rollout"));
    images(&shell("image"));
    scales(&shell("scale"));
    waits(&shell("wait"));
    wait_outlives_the_server(&shell("wait")).await;
    logs(&shell("logs")).await;
    completions(&shell("logs"));
    Ok(())
}

fn rollouts(shell: &Shell<'_>) {
    shell.apply(LOOM);
    shell.rolled_out("deploy/loom");
    let history = "deployment.apps/loom \nREVISION  CHANGE-CAUSE\n1         start here\n\n";
    shell.ok("rollout history deploy/loom", history);
    shell.apply(&LOOM.replace("start here", "went to two").replace(":v1", ":v2"));
    shell.rolled_out("deploy/loom");
    let history = "deployment.apps/loom \nREVISION  CHANGE-CAUSE\n1         start here\n2         went to two\n\n";
    shell.ok("rollout history deploy/loom", history);
    let one = shell.run("rollout history deploy/loom --revision=1").out;
    assert!(
        one.starts_with("deployment.apps/loom with revision #1\nPod Template:\n  Labels:\tpod-template-hash="),
        "{one}"
    );
    assert!(one.contains("  Annotations:\tkubernetes.io/change-cause: start here\n"), "{one}");
    assert!(one.contains("    Image:\tsoscscs/myapp:v1\n"), "{one}");
    shell.refuse("rollout history deploy/loom --revision=9", "error: unable to find the specified revision\n");

    let skipped = "deployment.apps/loom skipped rollback (current template already matches revision 2)\n";
    shell.ok("rollout undo deploy/loom --to-revision=2", skipped);
    let dry = "deployment.apps/loom rolled back (server dry run)\n";
    shell.ok("rollout undo deploy/loom --dry-run=server", dry);
    let shown = shell.run("rollout undo deploy/loom --dry-run=client").out;
    assert!(shown.starts_with("deployment.apps/loom Pod Template:\n") && shown.ends_with(" (dry run)\n"), "{shown}");
    let unknown = "error: unable to find specified revision 44 in history\n";
    shell.refuse("rollout undo deploy/loom --to-revision=44", unknown);
    shell.ok("rollout undo deploy/loom", "deployment.apps/loom rolled back\n");
    shell.rolled_out("deploy/loom");
    let history = "deployment.apps/loom \nREVISION  CHANGE-CAUSE\n2         went to two\n3         start here\n\n";
    shell.ok("rollout history deploy", history);

    let pods = shell.run("get pods -o name").out;
    shell.ok("rollout restart deploy/loom", "deployment.apps/loom restarted\n");
    shell.rolled_out("deploy/loom");
    // The last of the old ones may still be stopping.
    let deadline = std::time::Instant::now() + LIMIT;
    while pods.lines().any(|pod| shell.run("get pods -o name").out.contains(pod)) {
        assert!(std::time::Instant::now() < deadline, "every pod is another one");
    }
    let other = "error: desired revision (1) is different from the running revision (4)\n";
    shell.refuse("rollout status deploy/loom --revision=1", other);
    shell.ok("rollout status deploy/loom --watch=false", "deployment \"loom\" successfully rolled out\n");
    let missing = "Error from server (NotFound): deployments.apps \"nosuch\" not found\n";
    shell.refuse("rollout status deploy/nosuch", missing);
    shell.wrong_usage("rollout status", "error: required resource not specified\n");
}

fn paused_and_late(shell: &Shell<'_>) {
    shell.ok("rollout pause deploy/loom", "deployment.apps/loom paused\n");
    shell.refuse("rollout pause deploy/loom", "error: deployments.apps \"loom\" is already paused\n");
    let paused = "error: deployments.apps \"loom\" can't restart paused deployment (run rollout resume first)\n";
    shell.refuse("rollout restart deploy/loom", paused);
    shell.ok("rollout resume deploy/loom", "deployment.apps/loom resumed\n");
    shell.refuse("rollout resume deploy/loom", "error: deployments.apps \"loom\" is not paused\n");
    shell.run("create configmap c --from-literal=a=b");
    shell.refuse("rollout restart cm c", "error: configmaps \"c\" restarting is not supported\n");
    shell.refuse("rollout status cm/c", "error: no status viewer has been implemented for ConfigMap\n");

    shell.apply(
        &LOOM
            .replace("name: loom", "name: late")
            .replace("spec:\n  replicas", "spec:\n  progressDeadlineSeconds: 1\n  replicas")
            .replace("t: loom", "t: late")
            .replace("soscscs/myapp:v1", "registry.local/none:1"),
    );
    let said = shell.run("rollout status deploy/late --timeout=60s");
    assert_eq!((said.err.as_str(), said.code), ("error: deployment \"late\" exceeded its progress deadline\n", 1));
    let said = shell.run("rollout status deploy/late --timeout=1s");
    assert_eq!((said.err.as_str(), said.code), ("error: deployment \"late\" exceeded its progress deadline\n", 1));
}

fn images(shell: &Shell<'_>) {
    shell.apply(LOOM);
    shell.ok(
        "set image deploy/loom a=soscscs/myapp:v2 --dry-run=server",
        "deployment.apps/loom image updated (server dry run)\n",
    );
    shell.ok("set image deploy/loom a=soscscs/myapp:v2", "deployment.apps/loom image updated\n");
    shell.ok("set image deploy/loom a=soscscs/myapp:v2", "");
    let image = "get deploy loom -o jsonpath={.spec.template.spec.containers[0].image}";
    shell.ok(image, "soscscs/myapp:v2");
    shell.ok("set image deploy -l app=none *=x", "");
    shell.ok("set image deploy --all *=soscscs/myapp:v3", "deployment.apps/loom image updated\n");
    shell.ok(image, "soscscs/myapp:v3");
    shell.refuse("set image deploy/loom x=y", "error: unable to find container named \"x\"\n");
    shell.wrong_usage("set image deploy/loom", "error: at least one image update is required\n");
    shell.wrong_usage("set image deploy/loom *=a b=c", "error: all containers are already specified by *");
    shell.wrong_usage("set env deploy/loom A=b", "error: lw set env is not supported");
    shell.wrong_usage("cp a b", "error: lw cp is not supported");
    shell.wrong_usage("autoscale deploy/loom --min=1", "error: required flag(s) \"max\" not set\n");
}

fn scales(shell: &Shell<'_>) {
    shell.apply(LOOM);
    shell.ok("scale deploy/loom --replicas=4 --timeout=30s", "deployment.apps/loom scaled\n");
    shell.ok("get deploy loom -o jsonpath={.status.replicas}", "4");
    let unlike = "error: Expected replicas to be 2, was 4\n";
    shell.refuse("scale deploy loom --current-replicas=2 --replicas=1", unlike);
    let version = shell.run("get deploy loom -o jsonpath={.metadata.resourceVersion}").out;
    let old = shell.run("scale deploy loom --resource-version=1 --replicas=1");
    assert!(old.err.starts_with("error: Expected resource version to be 1, was ") && old.code == 1, "{old:?}");
    let said = shell.run("scale deploy loom nosuch --replicas=1");
    let missing = "Error from server (NotFound): deployments.apps \"nosuch\" not found\n";
    assert_eq!((said.out.as_str(), said.err.as_str(), said.code), ("deployment.apps/loom scaled\n", missing, 1));
    let gone = shell.run(&format!("scale deploy loom --resource-version={version} --replicas=2"));
    assert!(gone.err.starts_with("error: Expected resource version to be "), "{gone:?}");
}

fn waits(shell: &Shell<'_>) {
    shell.apply(PAIR);
    shell.ok("wait --for=condition=Ready pod/pair --timeout=60s", "pod/pair condition met\n");
    shell.ok("wait --for=jsonpath={.status.phase}=Running pods -l t=pair", "pod/pair condition met\n");
    let late = "error: timed out waiting for the condition on pods/pair\n";
    shell.refuse("wait --for=condition=ready=false pod/pair --timeout=300ms", late);
    shell.refuse("wait --for=delete pods --all --timeout=300ms", late);
    shell.refuse("wait --for=condition=Odd pod/pair --timeout=0", "error: condition not met for pods/pair\n");
    let missing = "Error from server (NotFound): pods \"none\" not found\n";
    shell.refuse("wait --for=condition=Ready pod/none", missing);
    shell.ok("wait --for=delete pod/none", "");
    shell.refuse("wait --for=create pod/none --timeout=300ms", "error: timed out waiting for the condition\n");
    shell.refuse("wait --for=condition=Ready pods -l t=none", "error: no matching resources found\n");
    shell.wrong_usage("wait --for=bogus pod/pair", "error: unrecognized condition: \"bogus\"\n");

    let gone = shell.begin("wait --for=delete pod/pair --timeout=60s");
    shell.ok("delete pod pair", "pod \"pair\" deleted from wait namespace\n");
    let said = said(gone);
    // The wait may have begun when the pod was gone already, and then there was nothing to say.
    assert!(said.code == 0 && ["pod/pair condition met\n", ""].contains(&said.out.as_str()), "{said:?}");
}

/// A wait is a watch: it goes on when the server comes back, and hears what happened.
async fn wait_outlives_the_server(shell: &Shell<'_>) {
    let waiting = shell.begin("wait --for=create --for=jsonpath={.data.a}=b configmap/late --timeout=60s");
    shell.cluster.order(&["kill", "server"]).expect("killed");
    eventually(LIMIT, "the server is back", || async {
        let said = shell.run("create configmap late --from-literal=a=b");
        if said.code == 0 || said.err.contains("already exists") { Ok(()) } else { Err(said) }
    })
    .await;
    let said = tokio::task::block_in_place(|| said(waiting));
    assert_eq!((said.out.as_str(), said.code), ("configmap/late condition met\nconfigmap/late condition met\n", 0));
}

async fn logs(shell: &Shell<'_>) {
    shell.apply(PAIR);
    // A container is ready before it has written anything.
    eventually(LIMIT, "all has been written", || async {
        let said = shell.run("logs pair --all-containers");
        if said.out == "made\na\nb\nc\nd\n" { Ok(()) } else { Err(said) }
    })
    .await;
    let chosen = shell.run("logs pair");
    let told = "Defaulted container \"one\" out of: one, two, first (init)\n";
    assert_eq!((chosen.out.as_str(), chosen.err.as_str()), ("a\nb\nc\n", told));
    shell.ok("logs pair -c two", "d\n");
    shell.ok("logs pair first", "made\n");
    shell.ok("logs pair -c one --tail=1", "c\n");
    shell.ok("logs pair --all-containers", "made\na\nb\nc\nd\n");
    let prefixed = "[pod/pair/first] made\n[pod/pair/one] c\n[pod/pair/two] d\n";
    shell.ok("logs -l t=pair --all-containers --prefix --tail=1", prefixed);
    shell.ok("logs pair -c one --since-time=2020-01-01T00:00:00Z", "a\nb\nc\n");
    shell.ok("logs pair -c one --since-time=2199-01-01T00:00:00Z", "");
    let stamped = shell.run("logs pair -c two --timestamps --since=1h").out;
    assert!(stamped.starts_with("20") && stamped.ends_with("Z d\n"), "{stamped}");
    let unknown = "error: container x is not valid for pod pair out of: one, two, first (init)\n";
    shell.refuse("logs pair -c x", unknown);
    let missing = "error: error from server (NotFound): pods \"none\" not found in namespace \"logs\"\n";
    shell.refuse("logs none", missing);
    let many = "error: you are attempting to follow 3 log streams, but maximum allowed concurrency is 2, use \
                --max-log-requests to increase the limit\n";
    shell.refuse("logs pair --all-containers -f --max-log-requests=2", many);
    shell.wrong_usage("logs pair --all-containers -c one", "error: --all-containers=true should not be specified");

    // Those that grow are shown together, whole lines of each, until all have ended.
    let mut following = shell.begin("logs pair -f --all-containers --prefix --tail=1");
    let mut lines = BufReader::new(following.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let mut first: Vec<String> = lines.by_ref().take(3).collect();
    first.sort_unstable();
    assert_eq!(first, ["[pod/pair/first] made", "[pod/pair/one] c", "[pod/pair/two] d"]);
    shell.ok("delete pod pair", "pod \"pair\" deleted from logs namespace\n");
    assert_eq!(lines.next(), None, "the logs end with their containers");
    assert!(following.wait().expect("lw ends").success());
}

fn completions(shell: &Shell<'_>) {
    for name in ["bash", "zsh", "fish"] {
        let mut command = Command::new(binary::lw());
        let script = command.args(["completion", name]).output().expect("lw starts");
        assert!(script.status.success() && String::from_utf8_lossy(&script.stdout).contains("LW_COMPLETE"), "{name}");
    }
    shell.run("create configmap shelf --from-literal=a=b");
    let complete = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let mut command = shell.command("");
        command.env("LW_COMPLETE", "bash").env("_CLAP_IFS", "\n");
        command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        let output = Command::new(command.get_program())
            .envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))))
            .args(["--", "lw"])
            .args(&words[1..])
            .output()
            .expect("lw starts");
        String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("lw roll"), ["rollout"]);
    assert_eq!(complete("lw get config"), ["configmaps"]);
    assert_eq!(complete("lw get -n logs cm sh"), ["shelf"]);
    assert_eq!(complete("lw describe -n logs cm/s"), ["cm/shelf"]);
    assert_eq!(complete("lw rollout status --rev"), ["--revision"]);
    assert_eq!(complete("lw get -n nowhere cm sh"), Vec::<String>::new());
}
