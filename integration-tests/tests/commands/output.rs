//! Forms of output and ways to find objects. Texts are those of the recorded sessions get-outputs, get-selectors and
//! create-object-generators (kubectl 1.36.3).

use listwatch_integration_tests::Server;

use crate::shell::{Shell, table};

const MAPS: &str = "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c1, labels: {env: dev, tier: '10'}}, data: {h: '30', dotted.key: 'yes'}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c2, labels: {env: prod, tier: '9'}}, data: {h: '25'}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c3}
";

#[test]
fn objects_are_shown_in_every_form() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    shell.check("create -f -", MAPS, "configmap/c1 created\nconfigmap/c2 created\nconfigmap/c3 created\n");
    forms(&shell);
    order(&shell);
    generators(&shell);
    descriptions(&shell);
    files(&shell);
}

fn forms(shell: &Shell<'_>) {
    shell.check("get cm c1 -o jsonpath='{.data.dotted\\.key} {.data.h}'", "", "yes 30");
    let range = "get cm -l env -o jsonpath='{range .items[*]}{.metadata.name}{\"\\t\"}{.data.h}{\"\\n\"}{end}'";
    shell.check(range, "", "c1\t30\nc2\t25\n");
    shell.check("get cm c1 -o jsonpath-as-json={.data.h}", "", "[\n    \"30\"\n]\n");
    shell.check(
        "get cm -o custom-columns=N:.metadata.name,HEIGHT:.data.h",
        "",
        "N     HEIGHT\nc1    30\nc2    25\nc3    <none>\n",
    );
}

fn order(shell: &Shell<'_>) {
    shell.check("get cm -l env --sort-by=.metadata.labels.tier -o name", "", "configmap/c2\nconfigmap/c1\n");
    let (out, _, _) = shell.run("get cm --sort-by={.data.h} -L env --chunk-size=1", "");
    assert_eq!(table(&out), ["NAME DATA AGE ENV", "c3 0 <age>", "c2 1 <age> prod", "c1 2 <age> dev"]);
    shell.refused("get cm --sort-by=.metadata[ -o name", "", "error: unterminated array", 1);
    let nobody = "error: couldn't find any field with path \"{.nope}\" in the list of objects";
    shell.refused("get cm --sort-by=.nope -o name", "", nobody, 1);
    shell.refused("get cm c1 -l env=dev", "", "error: name cannot be provided when a selector is specified", 1);
    let (_, err, code) = shell.run("get cm --field-selector data.x=1", "");
    assert_eq!(code, 1);
    assert!(err.starts_with("Error from server (BadRequest): Unable to find \"/v1, Resource=configmaps\" that match label selector \"\", field selector \"data.x=1\": "), "{err}");
}

fn generators(shell: &Shell<'_>) {
    shell.check("create ns blue", "", "namespace/blue created\n");
    shell.check("create cm made --from-literal=k=v -n blue -o jsonpath={.data}", "", "{\"k\":\"v\"}");
    let taken = "error: failed to create configmap: configmaps \"made\" already exists";
    shell.refused("create configmap made -n blue", "", taken, 1);
    shell.check("create deployment web --image=a:1 --replicas=0 --port=80", "", "deployment.apps/web created\n");
    shell.check(
        "get deploy web -o jsonpath='{.spec.selector.matchLabels.app} {.spec.template.spec.containers[0].ports[0].containerPort}'",
        "",
        "web 80",
    );
    shell.refused(
        "create configmap c4 --from-literal=novalue",
        "",
        "error: invalid literal source novalue, expected key=value",
        1,
    );
}

fn descriptions(shell: &Shell<'_>) {
    let (out, err, code) = shell.run("describe cm c1", "");
    let expected = "Name:         c1\nNamespace:    default\nLabels:       env=dev\n              tier=10\n\
                    Annotations:  <none>\n\nData\n====\ndotted.key:\n----\nyes\n\nh:\n----\n30\n\n\nBinaryData\n====\n\n\
                    Events:  <none>\n";
    assert_eq!((out.as_str(), err.as_str(), code), (expected, "", 0));
    let (out, _, _) = shell.run("describe -f - --show-events=false", MAPS);
    let names: Vec<_> = out.lines().filter(|line| line.starts_with("Name:")).collect();
    assert_eq!(names, ["Name:         c1", "Name:         c2", "Name:         c3"]);
    let (out, _, _) = shell.run("describe ns blue", "");
    assert!(out.starts_with("Name:         blue\n") && out.contains("\nStatus:       Active\n"), "{out}");
    let (out, _, _) = shell.run("describe deploy/web", "");
    assert!(
        out.contains("\nReplicas:               0 desired | 0 updated | 0 total | 0 available | 0 unavailable\n"),
        "{out}"
    );
    let (out, err, code) = shell.run("describe pod/none deploy/none", "");
    let not_found = "Error from server (NotFound): pods \"none\" not found\nError from server (NotFound): \
                     deployments.apps \"none\" not found\n";
    assert_eq!((out.as_str(), err.as_str(), code), ("", not_found, 1));
    shell.refused("describe nothing x", "", "error: the server doesn't have a resource type \"nothing\"", 1);
}

fn files(shell: &Shell<'_>) {
    shell.check("get -f - -o name", MAPS, "configmap/c1\nconfigmap/c2\nconfigmap/c3\n");
    let folder = tempfile::tempdir().expect("folder");
    std::fs::create_dir(folder.path().join("inner")).expect("folder");
    std::fs::write(folder.path().join("a.yaml"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: fa}}")
        .expect("written");
    std::fs::write(
        folder.path().join("inner/b.json"),
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"fb\"}}",
    )
    .expect("written");
    std::fs::write(folder.path().join("notes.txt"), "no manifest").expect("written");
    let path = folder.path().display();
    shell.check(&format!("apply -f {path}"), "", "configmap/fa created\n");
    shell.check(&format!("apply -R -f {path}"), "", "configmap/fa unchanged\nconfigmap/fb created\n");
    shell.check(&format!("delete -R -f {path} -o name"), "", "configmap/fa\nconfigmap/fb\n");
    for (flag, problem) in [
        ("-k .", "-k (--kustomize) is not supported: build the folder with kustomize and give it to -f -"),
        ("--force-conflicts -f x", "--force-conflicts only works with --server-side"),
        ("--prune -f x", "--prune is not supported: delete what is no longer wanted with lw delete"),
    ] {
        shell.refused(&format!("apply {flag}"), "", &format!("error: {problem}"), 1);
    }
}
