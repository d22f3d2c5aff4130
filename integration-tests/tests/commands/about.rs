//! What this is and where it goes: versions, the kubeconfig, what an apply would change; and what there is not. Texts are
//! those of kubectl 1.36.3.

use listwatch_integration_tests::Server;

use crate::shell::Shell;

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata: {a: \"1\"}\n";
const MAP_CHANGED: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata: {a: \"2\"}\n";

#[test]
fn versions_and_addresses_are_told() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    let own = format!("v1.36.3+listwatch-{}", env!("CARGO_PKG_VERSION"));
    shell.check("version", "", &format!("Client Version: {own}\nServer Version: {own}\n"));
    shell.check("version --client", "", &format!("Client Version: {own}\n"));
    let (json, _, code) = shell.run("version -o json", "");
    let versions: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&versions["clientVersion"]["gitVersion"], code), (&own.as_str().into(), 0));
    assert_eq!(versions["serverVersion"]["emulationMinor"], "36");
    shell.refused("version -o wide", "", "error: --output must be 'yaml' or 'json'", 1);
    // Without a server the client's own is still told.
    let (out, err, code) = shell.run("version --server=https://127.0.0.1:1 --insecure-skip-tls-verify", "");
    assert_eq!((out, code), (format!("Client Version: {own}\n"), 1));
    assert!(err.contains("127.0.0.1:1 was refused"), "{err}");

    let (out, _, _) = shell.run("api-versions", "");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.is_sorted() && lines.contains(&"apps/v1") && lines.contains(&"v1"), "{out}");
    let (out, _, _) = shell.run("api-resources --no-headers", "");
    let autoscalers: Vec<&str> = out.lines().filter(|line| line.starts_with("horizontalpodautoscalers ")).collect();
    assert_eq!(autoscalers.len(), 1, "{autoscalers:?}");
    assert!(autoscalers[0].contains("autoscaling/v2"), "{autoscalers:?}");

    let (out, _, code) = shell.run("cluster-info", "");
    let address = shell.run("config view -o jsonpath={.clusters[0].cluster.server}", "").0;
    assert!(address.starts_with("https://"), "{address}");
    assert_eq!((out, code), (format!("Kubernetes control plane is running at {address}\n"), 0));
    // The flags that it tells of are taken by itself, too.
    let (out, _, _) = shell.run("-n blue options", "");
    assert!(out.starts_with("The following options can be passed to any command:\n\n    --as='':\n\t"), "{out}");
}

#[test]
fn the_kubeconfig_is_shown_without_secrets_and_changed_in_place() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    let (out, _, _) = shell.run("config view", "");
    assert!(out.contains("    client-key-data: DATA+OMITTED\n") && !out.contains("LS0t"), "{out}");
    assert!(shell.run("config view --raw", "").0.contains("client-key-data: LS0t"));
    let current = shell.run("config current-context", "").0.trim().to_owned();
    shell.check(
        "config set-context --current --namespace=kube-system",
        "",
        &format!("Context \"{current}\" modified.\n"),
    );
    let (out, _, _) = shell.run("config get-contexts", "");
    let row: Vec<&str> = out.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!((row[0], row[1], row[4]), ("*", current.as_str(), "kube-system"));
    // The file still reads, and is followed.
    shell.check("get cm kube-root-ca.crt -o jsonpath={.metadata.namespace} --ignore-not-found", "", "");
    let (out, err, code) = shell.run("get pods", "");
    assert_eq!((out.as_str(), err.as_str(), code), ("", "No resources found in kube-system namespace.\n", 0));
    let user = shell.run("config get-users", "").0;
    let user = user.lines().nth(1).expect("a user");
    let cluster = shell.run("config get-clusters", "").0;
    let cluster = cluster.lines().nth(1).expect("a cluster");
    let made = format!("config set-context blue --cluster={cluster} --user={user}");
    shell.check(&made, "", "Context \"blue\" created.\n");
    shell.check("config use-context blue", "", "Switched to context \"blue\".\n");
    shell.check("config current-context", "", "blue\n");
    shell.check("config rename-context blue red", "", "Context \"blue\" renamed to \"red\".\n");
    let path = server.data_dir().join("kubeconfig");
    let (out, err, code) = shell.run("config delete-context red", "");
    assert_eq!((out, code), (format!("deleted context red from {}\n", path.display()), 0));
    assert!(err.starts_with("warning: this removed your active context"), "{err}");
    shell.refused("config use-context none", "", "error: no context exists with the name: \"none\"", 1);
    let what = "error: you must specify a non-empty context name or --current";
    shell.refused("config set-context", "", what, 1);
}

#[test]
fn a_diff_shows_what_an_apply_would_change_and_changes_nothing() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    let (out, err, code) = shell.run("diff -f -", MAP);
    assert_eq!((err.as_str(), code), ("", 1), "{out}");
    assert!(out.contains("+kind: ConfigMap\n") && out.contains("/v1.ConfigMap.default.notes"), "{out}");
    shell.refused("get cm notes", "", "Error from server (NotFound): configmaps \"notes\" not found", 1);
    shell.check("apply -f -", MAP, "configmap/notes created\n");
    shell.check("diff -f -", MAP, "");
    let (out, err, code) = shell.run("diff -f -", MAP_CHANGED);
    assert_eq!((err.as_str(), code), ("", 1), "{out}");
    let changed: Vec<&str> =
        out.lines().filter(|line| line.starts_with(['+', '-']) && line.contains("  a: ")).collect();
    assert_eq!(changed, ["-  a: \"1\"", "+  a: \"2\""], "{out}");
    shell.check("get cm notes -o jsonpath={.data.a}", "", "1");
    let (out, _, code) = shell.run("diff --server-side -f -", MAP_CHANGED);
    assert!(code == 2 || out.contains("+  a: \"2\""), "{out}");
    let (out, _, code) = shell.run_with(&[("KUBECTL_EXTERNAL_DIFF", "echo -x")], "diff -f -", MAP);
    assert!(out.starts_with("-x ") && out.contains("/LIVE-") && code == 0, "{out}");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hidden}\n";
    let (out, _, _) = shell.run("diff -f -", secret);
    assert!(out.contains("+  k: '***'\n") && !out.contains("aGlkZGVu"), "{out}");
    shell.refused("diff", "", "error: must specify one of -f and -k", 2);
    let missing = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}\n";
    shell.refused("diff -f -", missing, "Error from server (NotFound): namespaces \"nowhere\" not found", 2);
}

#[test]
fn requests_for_certificates_are_judged() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    let missing = "Error from server (NotFound): certificatesigningrequests.certificates.k8s.io \"nosuch\" not found";
    shell.refused("certificate approve nosuch", "", missing, 1);
    let nobody = "error: one or more CSRs must be specified as <name> or -f <filename>";
    shell.refused("certificate deny", "", nobody, 1);
}

#[test]
fn what_there_is_not_is_refused_by_name() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    let every = [
        "alpha",
        "auth reconcile",
        "cluster-info dump",
        "config set",
        "config unset",
        "cp",
        "debug",
        "kuberc",
        "kustomize",
        "plugin",
        "proxy",
        "top",
    ];
    for command in every {
        let (out, err, code) = shell.run(&format!("{command} --some=flag word"), "");
        assert_eq!((out.as_str(), code), ("", 1), "{command}: {err}");
        assert!(err.starts_with(&format!("error: lw {command} is not supported")), "{command}: {err}");
    }
    shell.refused("cp a b", "", "error: one of src or dest must be a remote file specification", 1);
}
