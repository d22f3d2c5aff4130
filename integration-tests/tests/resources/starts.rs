//! Starts that cannot be: each ends with a sentence that names what is wrong, and with nothing changed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use listwatch_integration_tests::{Server, binary};

/// What a start of a server says that is refused.
fn refused(args: &[&str]) -> String {
    ends(1, &[&["server"][..], args].concat())
}

/// What `lw` says when it ends at once with this code.
fn ends(code: i32, args: &[&str]) -> String {
    let output = Command::new(binary::lw()).args(args).stdin(Stdio::null()).output().expect("lw runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?}: no ready line");
    said
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary folder's path is text")
}

const FREE: [&str; 4] = ["--listen-client-urls", "http://127.0.0.1:0", "--secure-port", "0"];

#[track_caller]
fn says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn a_port_that_is_taken_is_named_with_its_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = held.local_addr().expect("bound").port().to_string();
    let owner = format!("(pid {})", std::process::id());
    let data = folder.path().join("data");
    let url = format!("http://127.0.0.1:{port}");
    let said = refused(&["--data-dir", text(&data), "--listen-client-urls", &url, "--secure-port", "0"]);
    says(&said, &["--listen-client-urls", &port, &owner]);
    let said =
        refused(&["--data-dir", text(&data), "--listen-client-urls", "http://127.0.0.1:0", "--secure-port", &port]);
    says(&said, &["--secure-port", &port, &owner]);
    assert!(!data.exists(), "a start that gets no port makes no store");
}

#[test]
fn a_folder_that_cannot_be_a_store_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "text").expect("written");
    for dir in [file.join("data"), file.clone()] {
        let said = refused(&[&["--data-dir", text(&dir)][..], &FREE].concat());
        says(&said, &["--data-dir", text(&dir)]);
    }
    assert_eq!(fs::read_to_string(&file).expect("still there"), "text");
}

#[test]
fn a_store_in_use_is_named_with_the_process_that_has_it() {
    let mut server = Server::start(&[]).expect("a server");
    let dir = server.data_dir();
    let said = refused(&[&["--data-dir", text(&dir)][..], &FREE].concat());
    says(&said, &[text(&dir), &server.process().pid().to_string()]);
}

/// A store that was stopped, damaged by `damage`, is refused; put back, it opens.
fn damaged(damage: impl FnOnce(&Path), words: &[&str]) {
    let mut server = Server::start(&[]).expect("a server");
    server.stop_and_restart().expect("a clean end");
    server.process().stop().expect("a clean end");
    let dir = server.data_dir();
    damage(&dir);
    let said = refused(&[&["--data-dir", text(&dir)][..], &FREE].concat());
    says(&said, &[text(&dir)]);
    says(&said, words);
}

#[test]
fn a_damaged_state_is_refused() {
    let damage = |dir: &Path| {
        let db = dir.join("state/db");
        let len = fs::metadata(&db).expect("the state").len();
        fs::write(&db, vec![0x5a; usize::try_from(len).expect("a size")]).expect("damaged");
    };
    damaged(damage, &[]);
}

#[test]
fn a_log_of_another_store_is_refused() {
    let other = Server::start(&[]).expect("a server");
    let damage = |dir: &Path| {
        let name = "log/0000000000000001.seg";
        fs::copy(other.data_dir().join(name), dir.join(name)).expect("copied");
    };
    damaged(damage, &["log"]);
}

#[test]
fn certificates_and_tokens_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (data, garbage, none) = (at("data"), at("garbage.pem"), at("none.pem"));
    fs::write(&garbage, b"-----BEGIN CERTIFICATE-----\n\xff\xfe\n").expect("written");
    let start = |flags: &[&str]| refused(&[&["--data-dir", text(&data)][..], &FREE, flags].concat());
    for file in [&none, &garbage] {
        let said = start(&["--tls-cert-file", text(file), "--tls-private-key-file", text(file)]);
        says(&said, &[text(file)]);
    }
    for (line, word) in [("one-field", ":1:"), ("t,u,1\nt,v,2", ":2:"), ("t,\"u", ":1:")] {
        let tokens = at("tokens.csv");
        fs::write(&tokens, line).expect("written");
        let said = start(&["--token-auth-file", text(&tokens)]);
        says(&said, &["--token-auth-file", text(&tokens), word]);
    }
    says(&start(&["--token-auth-file", text(&at("no.csv"))]), &["--token-auth-file", "no.csv"]);

    // The own certificates of a data folder, damaged.
    let mut server = Server::start(&[]).expect("a server");
    server.process().stop().expect("a clean end");
    for name in ["server.crt", "server.key", "ca.crt"] {
        let file = server.data_dir().join("pki").join(name);
        let good = fs::read(&file).expect("a certificate");
        fs::write(&file, "garbage").expect("damaged");
        let said = refused(&[&["--data-dir", text(&server.data_dir())][..], &FREE].concat());
        says(&said, &["pki"]);
        fs::write(&file, good).expect("put back");
    }
    server.kill_and_restart().expect("it opens again");
}

#[test]
fn wrong_usage_is_told_by_the_flag_and_ends_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let data = text(&data);
    let server = |flags: &[&'static str]| [&["server"][..], flags].concat();
    let kubelet = |flags: &[&'static str]| {
        [&["kubelet", "--server", "https://127.0.0.1:1", "--hostname-override", "n"][..], flags].concat()
    };
    let manager =
        |flags: &[&'static str]| [&["controller-manager", "--server", "https://127.0.0.1:1"][..], flags].concat();
    let cases = [
        (server(&["--listen-client-urls", "http://0.0.0.0:0"]), "--allow-plain-text"),
        (server(&["--listen-client-urls", "https://127.0.0.1:0"]), "--cert-file"),
        (server(&["--sync-interval", "1s"]), "--sync-interval"),
        (server(&["--sync-interval", "0", "--durability", "buffered"]), "--sync-interval"),
        (server(&["--log", "foo=bar=baz"]), "--log"),
        (server(&["--event-ttl", "2562047788015215h"]), "100 years"),
        (kubelet(&["--node-capacity", "cpu"]), "--node-capacity"),
        (kubelet(&["--node-capacity", "cpu=-1"]), "--node-capacity cpu=-1"),
        (kubelet(&["--register-with-taints", "a=b:Foo"]), "--register-with-taints"),
        (kubelet(&["--runtime", "cri"]), "--runtime cri"),
        (kubelet(&["--failure-backoff", "18446744073709551615"]), "--failure-backoff"),
        (manager(&["--node-monitor-grace-period", "2562047788015215h"]), "100 years"),
        (manager(&["--node-monitor-period", "0s"]), "--node-monitor-period"),
        (manager(&["--node-eviction-rate", "1e308"]), "--node-eviction-rate"),
        (manager(&["--leader-elect-renew-deadline", "20s"]), "renew deadline"),
        (vec!["up", "--name", "../x"], "--name"),
        (vec!["up", "--log", "foo=bar=baz"], "--log"),
        (vec!["up", "--client-port", "7", "--secure-port", "7"], "--client-port 7 and --secure-port 7"),
    ];
    for (args, word) in cases {
        let place = match args[0] {
            "kubelet" => &["--root-dir", data][..],
            "controller-manager" => &[],
            _ => &["--data-dir", data],
        };
        says(&ends(2, &[&args, place].concat()), &[word]);
    }
}
