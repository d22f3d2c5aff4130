//! What a hostile argument, file, terminal text or full disk does to a command: it is told, and nothing panics.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use listwatch_integration_tests::Server;

use crate::shell::Shell;

#[test]
fn hostile_input_is_told() {
    let server = Server::start(&[]).expect("a server");
    let shell = Shell { server: &server };
    arguments(&shell);
    full_disk(&shell);
    terminal(&shell);
    stale_version(&shell);
    files(&shell);
}

/// Standard error and exit code of a command that may have arguments which are no text, and a file to print into.
fn raw(shell: &Shell<'_>, args: &[&[u8]], out: Option<&str>) -> (String, i32) {
    let mut command = shell.command("");
    command.args(args.iter().copied().map(OsStr::from_bytes)).stdin(Stdio::null());
    if let Some(path) = out {
        command.stdout(OpenOptions::new().write(true).open(path).expect("a device"));
    }
    let output = command.output().expect("lw runs");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code().expect("an exit code"))
}

fn arguments(shell: &Shell<'_>) {
    for args in
        [&[&b"get"[..], b"\xff"][..], &[b"get", b"pods", b"-n", b"\xff"], &[b"\xff"], &[b"status", b"--name=\xff"]]
    {
        let (err, code) = raw(shell, args, None);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.starts_with("error: ") && !err.contains("panicked"), "{err}");
    }
    let (_, err, code) = shell.run("wait pod/x --for=delete --timeout=99999999999999999h", "");
    assert_eq!(code, 1);
    assert!(err.contains("longer than a hundred years"), "{err}");
    for command in ["apply", "create"] {
        shell.refused(command, "", "error: must specify one of -f and -k", 1);
    }
}

fn full_disk(shell: &Shell<'_>) {
    for args in [
        &[&b"--help"[..]][..],
        &[b"get", b"ns"],
        &[b"get", b"ns", b"-o", b"jsonpath={.kind}"],
        &[b"api-resources"],
        &[b"completion", b"bash"],
        &[b"describe", b"ns", b"default"],
    ] {
        let (err, code) = raw(shell, args, Some("/dev/full"));
        assert_eq!(code, 1, "{args:?}: {err}");
        assert!(err.starts_with("error: ") && err.contains("No space left on device"), "{err}");
    }
}

fn terminal(shell: &Shell<'_>) {
    let event = "{\"apiVersion\": \"v1\", \"kind\": \"Event\", \"metadata\": {\"name\": \"e\"}, \"type\": \"Normal\", \
                 \"reason\": \"R\", \"involvedObject\": {\"kind\": \"ConfigMap\", \"name\": \"h\", \"namespace\": \
                 \"default\", \"apiVersion\": \"v1\"}, \"message\": \"a\\u001b[2Jb\\rc\\nforged line\"}";
    shell.check("create -f -", event, "event/e created\n");
    let map = "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"h\"}, \"data\": {\"k\": \
               \"x\\u001b[31m\"}}";
    shell.check("create -f -", map, "configmap/h created\n");
    for (args, shown) in [
        ("events", "a^[[2Jb\\rc\\nforged line"),
        ("get events", "a^[[2Jb..."),
        ("describe cm h", "x^[[31m"),
        ("get cm h -o custom-columns=K:.data.k", "x^[[31m"),
    ] {
        let (out, err, code) = shell.run(args, "");
        assert_eq!((err.as_str(), code), ("", 0), "{args}");
        assert!(out.contains(shown) && !out.contains('\u{1b}') && !out.contains('\r'), "{args}: {out:?}");
    }
    // What a program reads stays as it is.
    shell.check("get cm h -o jsonpath={.data.k}", "", "x\u{1b}[31m");
}

fn stale_version(shell: &Shell<'_>) {
    let map = |version: &str, data: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: v{version}}}\ndata: {{k: '{data}'}}\n")
    };
    shell.check("apply -f -", &map("", "1"), "configmap/v created\n");
    let (stale, _, _) = shell.run("get cm v -o jsonpath={.metadata.resourceVersion}", "");
    shell.check("apply -f -", &map("", "2"), "configmap/v configured\n");
    let named = |version: &str| map(&format!(", resourceVersion: '{version}'"), "3");
    let (out, err, code) = shell.run("apply -f -", &named(&stale));
    assert_eq!((out.as_str(), code), ("", 1));
    assert!(err.starts_with("Error from server (Conflict): error when patching \"STDIN\": "), "{err}");
    shell.check("get cm v -o jsonpath={.data.k}", "", "2");
    let (fresh, _, _) = shell.run("get cm v -o jsonpath={.metadata.resourceVersion}", "");
    shell.check("apply -f -", &named(&fresh), "configmap/v configured\n");
    shell.check("get cm v -o jsonpath={.data.k}", "", "3");
}

fn files(shell: &Shell<'_>) {
    let deep = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: d}}\ndata: {}", "[".repeat(100_000));
    let why = "error: error parsing STDIN: document 1, line 4: nested too deep: more than 512 brackets are open";
    shell.refused("apply -f -", &deep, why, 1);
    let bomb = format!("a: &a \"{}\"\nb:\n{}", "x".repeat(100_000), "- *a\n".repeat(90_000));
    let (_, err, code) = shell.run("apply -f -", &bomb);
    assert_eq!(code, 1);
    assert!(err.contains("the document comes to more than 64 MiB"), "{err}");
    let marked = "\u{feff}apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bom}\n";
    shell.check("apply -f -", marked, "configmap/bom created\n");
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), "root:s3cret:0:0\nbin:s3cret:1:1\n").expect("written");
    let (_, err, code) = shell.run(&format!("get ns --kubeconfig {}", secret.path().display()), "");
    assert_eq!(code, 1);
    assert!(err.contains("not a kubeconfig") && !err.contains("s3cret"), "{err}");
}
