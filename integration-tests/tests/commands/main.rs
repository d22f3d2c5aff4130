//! The everyday commands against a real server: words, columns and exit codes as kubectl 1.36 has them.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;

use listwatch_integration_tests::Server;

mod about;
mod changes;
mod generated;
mod hostile;
mod output;
mod shell;

use shell::{Shell, table};

const LIMIT: Duration = Duration::from_secs(30);

const PLUM: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: plum
  labels: {tier: back}
  annotations: {owner: orchard}
spec:
  replicas: 0
  selector: {matchLabels: {fruit: plum}}
  template:
    metadata: {labels: {fruit: plum}}
    spec:
      containers:
      - name: one
        image: registry.local/plum:1
        env: [{name: A, value: '1'}, {name: B, value: '2'}]
        ports: [{containerPort: 8080}]
      - {name: two, image: 'registry.local/side:1'}
";

const PLUM_CHANGED: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: plum
  labels: {tier: front}
spec:
  selector: {matchLabels: {fruit: plum}}
  template:
    metadata: {labels: {fruit: plum}}
    spec:
      containers:
      - {name: two, image: 'registry.local/side:2'}
      - name: one
        image: registry.local/plum:1
        env: [{name: B, value: '3'}, {name: C, value: '4'}]
";

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: wren, labels: {a: b}}
spec: {containers: [{name: main, image: registry.local/main:1}]}
";

#[test]
fn apply_says_what_it_did_and_merges_three_ways() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    shell.check("apply -f -", PLUM, "deployment.apps/plum created\n");
    shell.check("apply -f -", PLUM, "deployment.apps/plum unchanged\n");
    shell.check("apply -f - --dry-run=server", PLUM_CHANGED, "deployment.apps/plum configured (server dry run)\n");
    shell.check("scale deploy plum --replicas=3", "", "deployment.apps/plum scaled\n");
    shell.check("apply -f -", PLUM_CHANGED, "deployment.apps/plum configured\n");
    shell.check("apply -f -", PLUM_CHANGED, "deployment.apps/plum unchanged\n");
    let (json, _, _) = shell.run("get deploy plum -o json", "");
    let plum: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    // Named last time and no more: the replicas are the default again, the owner is gone, the port too.
    assert_eq!(plum["spec"]["replicas"], 1);
    assert_eq!(plum["metadata"]["labels"], serde_json::json!({"tier": "front"}));
    assert_eq!(plum["metadata"]["annotations"]["owner"], serde_json::Value::Null);
    let containers = &plum["spec"]["template"]["spec"]["containers"];
    assert_eq!((&containers[0]["name"], &containers[1]["name"]), (&"two".into(), &"one".into()));
    assert_eq!(containers[1]["ports"], serde_json::Value::Null);
    let env = serde_json::json!([{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]);
    assert_eq!(containers[1]["env"], env);
}

#[test]
fn objects_are_made_shown_and_deleted_in_kubectls_words() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    let both = format!("{PLUM}---\n{POD}");
    shell.check("create -f -", &both, "deployment.apps/plum created\npod/wren created\n");
    let (out, err, code) = shell.run("create -f -", &both);
    assert_eq!((out.as_str(), code), ("", 1));
    assert_eq!(
        err,
        "Error from server (AlreadyExists): error when creating \"STDIN\": deployments.apps \"plum\" already exists\n\
         Error from server (AlreadyExists): error when creating \"STDIN\": pods \"wren\" already exists\n"
    );
    let (out, _, _) = shell.run("get pods --show-labels", "");
    assert_eq!(table(&out), ["NAME READY STATUS RESTARTS AGE LABELS", "wren 0/1 Pending 0 <age> a=b"]);
    let (out, _, _) = shell.run("get po,deploy -A", "");
    let parts: Vec<_> = out.split("\n\n").map(table).collect();
    assert_eq!(
        parts,
        [
            ["NAMESPACE NAME READY STATUS RESTARTS AGE", "default pod/wren 0/1 Pending 0 <age>"],
            ["NAMESPACE NAME READY UP-TO-DATE AVAILABLE AGE", "default deployment.apps/plum 0/0 0 0 <age>"],
        ]
    );
    shell.check("get pods,deploy -o name", "", "pod/wren\ndeployment.apps/plum\n");
    let (out, _, _) = shell.run("describe pod wr", "");
    assert!(out.starts_with("Name:             wren\nNamespace:        default\n"), "{out}");
    // Found by the beginning of its name, it is shown without its Events.
    assert!(out.ends_with("for 300s\n\n") && !out.contains("Events:"), "{out}");
    let (out, _, _) = shell.run("describe pod wren", "");
    assert!(out.ends_with("Events:           <none>\n"), "{out}");
    shell.check("delete pod wren", "", "pod \"wren\" deleted from default namespace\n");
    let (out, err, code) = shell.run("delete -f -", &both);
    assert_eq!((out.as_str(), code), ("deployment.apps \"plum\" deleted from default namespace\n", 1));
    assert_eq!(err, "Error from server (NotFound): error when deleting \"STDIN\": pods \"wren\" not found\n");
    shell.check("delete pods --all", "", "No resources found\n");
}

#[test]
fn refusals_are_kubectls_and_have_exit_codes() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    let not_found = "Error from server (NotFound): ";
    shell.refused("get pod none", "", &format!("{not_found}pods \"none\" not found"), 1);
    shell.refused("get pod none -n nowhere", "", &format!("{not_found}namespaces \"nowhere\" not found"), 1);
    shell.refused("get deploy none", "", &format!("{not_found}deployments.apps \"none\" not found"), 1);
    shell.refused("scale deploy none --replicas=1", "", &format!("{not_found}deployments.apps \"none\" not found"), 1);
    shell.refused("get widget", "", "error: the server doesn't have a resource type \"widget\"", 1);
    shell.refused("get pod a -l b=c", "", "error: name cannot be provided when a selector is specified", 1);
    shell.refused("delete pod", "", "error: resource(s) were provided, but no name was specified", 1);
    shell.refused(
        "logs none",
        "",
        "error: error from server (NotFound): pods \"none\" not found in namespace \"default\"",
        1,
    );
    shell.refused(
        "delete ns kube-system",
        "",
        "Error from server (Forbidden): namespaces \"kube-system\" is forbidden: this namespace may not be deleted",
        1,
    );
    shell.refused(
        "create -f -",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: u}\nspec: {containers: [{name: c, image: x, imagee: wy}], restartpolicy: Never}\n",
        "Error from server (BadRequest): error when creating \"STDIN\": Pod in version \"v1\" cannot be handled as a \
         Pod: strict decoding error: unknown field \"spec.containers[0].imagee\", unknown field \"spec.restartpolicy\"",
        1,
    );
    shell.refused(
        "apply -f -",
        "apiVersion: v1\nkind: Pod\n---\nmetadata:\n  name: b\n data: {}\n",
        "error: error when applying \"STDIN\": the Pod has no metadata.name: give it one\nerror: error parsing STDIN: document 2, line 6: did not \
         find expected key",
        1,
    );
    for (deed, nothing) in [("apply", ""), ("create", "# only words\n"), ("delete", "---\n---\n")] {
        shell.refused(&format!("{deed} -f -"), nothing, &format!("error: no objects passed to {deed}"), 1);
    }
    shell.refused("apply -f /dev/null", "", "error: no objects passed to apply", 1);
    shell.refused(
        "create -f -",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, name: b}\n",
        "error: error parsing STDIN: document 1, line 3: metadata: duplicate key \"name\"",
        1,
    );
    assert_eq!(shell.run("get pods --colour", "").2, 1);
    let (out, err, code) = shell.run("get pods", "");
    assert_eq!((out.as_str(), err.as_str(), code), ("", "No resources found in default namespace.\n", 0));
}

/// Lines of a running command.
struct Lines {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Lines {
    fn start(shell: &Shell<'_>, args: &str) -> Lines {
        let mut child = shell.command(args).spawn().expect("lw starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Lines { child, lines }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("a line in time")
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // The command runs for ever by design.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Rows of the first list had been printed one by one, each as wide as those before it.
#[test]
fn a_watch_begins_with_one_table() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    let names = ["a", "b-name-longer-than-the-first", "c"];
    let pods: Vec<_> = names.iter().map(|name| POD.replace("wren", name)).collect();
    let created: String = names.iter().map(|name| format!("pod/{name} created\n")).collect();
    shell.check("create -f -", &pods.join("---\n"), &created);
    let watch = Lines::start(&shell, "get pods -w");
    let lines: Vec<_> = (0..4).map(|_| watch.next()).collect();
    let second_column = lines[0].find("READY").expect("a column");
    for line in &lines[1..] {
        assert_eq!(line.find("0/1"), Some(second_column), "{lines:#?}");
    }
}

/// A watch that ended silently when the server closed its connection was the bug: SIGPIPE had been let through.
#[test]
fn a_watch_goes_on_when_the_server_comes_back() {
    let mut server = Server::start(&[]).expect("a server");
    let watches: Vec<_> = (0..10)
        .map(|_| Lines::start(&Shell { server: &server }, "get pods -w --output-watch-events -o name"))
        .collect();
    // No watch shows anything before the first event, so each is proved to run by the first pod.
    let expect = |line: &str| watches.iter().for_each(|watch| assert_eq!(watch.next(), line));
    Shell { server: &server }.check("create -f -", POD, "pod/wren created\n");
    expect("pod/wren");
    for round in 0..3 {
        let restarted =
            if round % 2 == 0 { server.stop_and_restart_in_place() } else { server.kill_and_restart_in_place() };
        restarted.expect("it comes back");
        let shell = Shell { server: &server };
        shell.check("delete pod wren", "", "pod \"wren\" deleted from default namespace\n");
        expect("pod/wren");
        shell.check("create -f -", POD, "pod/wren created\n");
        expect("pod/wren");
    }
}
