//! Changes of single objects: labels, annotations, taints, cordon, patch, edit. Texts are those of the recorded sessions
//! label-annotate, taints, cordon, patch-types and replace-edit (kubectl 1.36.3).

use listwatch_integration_tests::Server;

use crate::shell::Shell;

const NODES: &str = "\
apiVersion: v1
kind: Node
metadata: {name: node01, labels: {kubernetes.io/hostname: node01}}
---
apiVersion: v1
kind: Node
metadata: {name: node02, labels: {kubernetes.io/hostname: node02}}
";

const MAPS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: l1, labels: {a: '1'}}
data: {taste: sweet}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: l2, labels: {a: '1'}}
";

#[test]
fn objects_are_changed_in_kubectls_words() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    shell.check("create -f -", NODES, "node/node01 created\nnode/node02 created\n");
    shell.check("create -f -", MAPS, "configmap/l1 created\nconfigmap/l2 created\n");
    labels(&shell);
    annotations(&shell);
    taints(&shell);
    cordon(&shell);
    patches(&shell);
    edits(&shell);
}

fn labels(shell: &Shell<'_>) {
    shell.check("label nodes node01 qqq=1", "", "node/node01 labeled\n");
    shell.check("label nodes node01 qqq=1", "", "node/node01 not labeled\n");
    let taken = "error: 'qqq' already has a value (1), and --overwrite is false";
    shell.refused("label nodes node01 qqq=9", "", taken, 1);
    shell.check("label nodes node02 qqq=2", "", "node/node02 labeled\n");
    shell.check("get nodes -l qqq=2 -o name", "", "node/node02\n");
    shell.check("get nodes -l 'qqq in (1,2)' -o name", "", "node/node01\nnode/node02\n");
    shell.check("get nodes -l !qqq -o name", "", "");
    shell.check("label nodes node02 qqq=b --overwrite", "", "node/node02 labeled\n");
    shell.check("label nodes node01 qqq-", "", "node/node01 unlabeled\n");
    shell.check("label cm l1 b-", "", "label \"b\" not found.\nconfigmap/l1 not labeled\n");
    shell.check("label cm l1 c=1 a-", "", "configmap/l1 modified\n");
    shell.check("label cm l1 l2 z=9", "", "configmap/l1 labeled\nconfigmap/l2 labeled\n");
    shell.check("label cm -l z=9 x.example/part=q", "", "configmap/l1 labeled\nconfigmap/l2 labeled\n");
    shell.check("label cm l1 --list", "", "c=1\nx.example/part=q\nz=9\n");
    shell.check("label cm l1 k=v --dry-run=client", "", "configmap/l1 labeled (dry run)\n");
    shell.check("label cm l1 k=v --dry-run=server -o jsonpath={.metadata.labels.k}", "", "v");
    shell.check("label cm -l nothing=1 k=v", "", "");
    shell.refused("label cm l1 'ba d=1'", "", "The ConfigMap \"l1\" is invalid: metadata.labels: Invalid value: \"ba d\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')", 1);
    shell.refused("label cm l1 k=v --resource-version=1", "", "Error from server (Conflict): Operation cannot be fulfilled on configmaps \"l1\": the object has been modified; please apply your changes to the latest version and try again", 1);
    shell.refused("label cm l1 justword", "", "error: at least one label update is required", 1);
    shell.refused("label cm k=v", "", "error: resource(s) were provided, but no name was specified", 1);
    shell.refused("label cm nosuch k=v", "", "Error from server (NotFound): configmaps \"nosuch\" not found", 1);
}

fn annotations(shell: &Shell<'_>) {
    shell.check("annotate cm l1 'note=two words' n2=1", "", "configmap/l1 annotated\n");
    let taken = "error: --overwrite is false but found the following declared annotation(s): 'note' already has a value (two words)";
    shell.refused("annotate cm l1 note=other", "", taken, 1);
    shell.check("annotate cm l1 note-", "", "configmap/l1 annotated\n");
    shell.check("annotate cm l1 --list", "", "n2=1\n");
}

fn taints(shell: &Shell<'_>) {
    shell.check("taint node node01 wasp=nest:NoSchedule", "", "node/node01 tainted\n");
    let taken = "error: node node01 already has wasp taint(s) with same effect(s) and --overwrite is false";
    shell.refused("taint node node01 wasp=hive:NoSchedule", "", taken, 1);
    shell.check("taint node node01 wasp=hive:NoSchedule --overwrite", "", "node/node01 modified\n");
    shell.check("taint node node01 bare:NoExecute", "", "node/node01 tainted\n");
    // New ones come first.
    shell.check("get node node01 -o jsonpath={.spec.taints[0:2].key}", "", "bare wasp");
    shell.check("taint node node01 wasp=other:NoSchedule-", "", "node/node01 untainted\n");
    shell.refused("taint node node01 wasp:NoSchedule-", "", "error: taint \"wasp:NoSchedule\" not found", 1);
    shell.refused("taint nodes node01 fly- wasp-", "", "taint \"fly\" not found\ntaint \"wasp\" not found", 1);
    shell.check("taint node --all both=1:PreferNoSchedule", "", "node/node01 tainted\nnode/node02 tainted\n");
    shell.check("taint node -l kubernetes.io/hostname=node02 both-", "", "node/node02 untainted\n");
    shell.check("taint node node01 bare- both-", "", "node/node01 untainted\n");
    let mine = "get node node01 -o 'jsonpath={.spec.taints[?(@.key==\"bare\")].key}'";
    shell.check(mine, "", "");
    let not_found = "Error from server (NotFound): nodes \"nosuch\" not found";
    shell.refused("taint node nosuch a=b:NoSchedule", "", not_found, 1);
    let kind = "error: invalid resource type pod, only node types are supported";
    shell.refused("taint pod x a=b:NoSchedule", "", kind, 1);
}

fn cordon(shell: &Shell<'_>) {
    shell.check("cordon node02", "", "node/node02 cordoned\n");
    shell.check("cordon node02", "", "node/node02 already cordoned\n");
    shell.check("get node node02 --no-headers -o custom-columns=U:.spec.unschedulable", "", "true\n");
    shell.check("uncordon node02 --dry-run=client", "", "node/node02 uncordoned (dry run)\n");
    shell.check("uncordon -l kubernetes.io/hostname=node02", "", "node/node02 uncordoned\n");
    shell.refused("cordon node01 nosuch node02", "", "Error from server (NotFound): nodes \"nosuch\" not found", 1);
    shell.check("get nodes -o jsonpath={.items[*].spec.unschedulable}", "", "");
    let usage = "error: USAGE: cordon NODE [flags]\nSee 'lw cordon -h' for help and examples";
    shell.refused("cordon", "", usage, 1);
}

fn patches(shell: &Shell<'_>) {
    let merge = "patch cm l1 --type=merge -p '{\"data\":{\"a\":\"1\"}}'";
    shell.check(merge, "", "configmap/l1 patched\n");
    shell.check(merge, "", "configmap/l1 patched (no change)\n");
    let json = "patch cm/l1 --type=json -p '[{\"op\":\"remove\",\"path\":\"/data/a\"}]' -o jsonpath={.data}";
    shell.check(json, "", "{\"taste\":\"sweet\"}");
    shell.check(
        "patch cm l1 -p '{\"data\":{\"b\":\"2\"}}' -o jsonpath={.data}",
        "",
        "{\"b\":\"2\",\"taste\":\"sweet\"}",
    );
    shell.check("patch cm l1 -p '{\"data\":{\"b\":null}}' -o jsonpath={.data}", "", "{\"taste\":\"sweet\"}");
    let (out, err, code) = shell.run("patch node node01 -p '{\"spec\":{\"cordoned\":true}}'", "");
    assert_eq!((out.as_str(), code), ("node/node01 patched (no change)\n", 0));
    assert_eq!(err, "Warning: unknown field \"spec.cordoned\"\n");
}

fn edits(shell: &Shell<'_>) {
    let edit = |editor: &str, args: &str| shell.run_with(&[("EDITOR", editor)], args, "");
    let done = |out: &str, err: &str, code| (out.to_owned(), err.to_owned(), code);
    assert_eq!(edit("sed -i s/sweet/bitter/", "edit cm l1"), done("configmap/l1 edited\n", "", 0));
    shell.check("get cm l1 -o jsonpath={.data.taste}", "", "bitter");
    assert_eq!(edit("true", "edit cm l1"), done("", "Edit cancelled, no changes made.\n", 0));
    let problem = "error: there was a problem with the editor \"false\"\n";
    assert_eq!(edit("false", "edit cm l1"), done("", problem, 1));
    let (out, err, code) = edit("sed -i s/name:.l1/name:\\ gif/", "edit cm l1");
    assert_eq!((out.as_str(), code), ("", 1));
    assert!(err.starts_with("A copy of your changes has been stored to \""), "{err}");
    assert!(err.ends_with("error: At least one of apiVersion, kind and name was changed\n"), "{err}");
    // The editor is opened again with the reason in the header; this one then takes the fault back.
    let editor = "if grep -q 'not valid' \"$1\"; then sed -i 's/labels_:/labels:/; s/bitter/tart/' \"$1\"; else sed -i \
                  s/labels:/labels_:/ \"$1\"; fi; true";
    let twice = edit(editor, "edit configmap/l1");
    assert_eq!((twice.0.as_str(), twice.2), ("configmap/l1 edited\n", 0));
    assert!(twice.1.starts_with("error: configmaps \"l1\" is invalid: "), "{}", twice.1);
    assert!(twice.1.contains("unknown field \"metadata.labels_\""), "{}", twice.1);
    shell.check("get cm l1 -o jsonpath={.data.taste}", "", "tart");
    let emptied = edit("cp /dev/null", "edit cm l1");
    assert_eq!(emptied, done("", "Edit cancelled, saved file was empty.\n", 0));
    let several = edit("sed -i s/tart/salty/", "edit cm l1 l2");
    assert_eq!(several, done("configmap/l1 edited\nconfigmap/l2 skipped\n", "", 0));
}
