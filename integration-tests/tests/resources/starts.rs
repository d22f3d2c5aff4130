//! Starts that cannot be: each ends with a sentence that names what is wrong, and with nothing changed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use listwatch_integration_tests::{Server, binary};

/// What a start says that is refused.
fn refused(args: &[&str]) -> String {
    let output = Command::new(binary::lw()).arg("server").args(args).stdin(Stdio::null()).output().expect("lw runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
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
fn plain_text_on_an_open_address_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let said = refused(&["--data-dir", text(&data), "--listen-client-urls", "http://0.0.0.0:0", "--secure-port", "0"]);
    says(&said, &["--listen-client-urls", "--allow-plain-text"]);
}
