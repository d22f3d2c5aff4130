//! The certificate folder: made once, read again, and every damage named.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use listwatch_proto::kubeconfig::Kubeconfig;

use super::{Error, Identity, Pki, ensure, kubeconfig};
use crate::clock::ManualClock;

/// 2026-01-01T00:00:00Z.
const NOW_MS: i64 = 1_767_225_600_000;

fn open(dir: &Path) -> Result<Pki, Error> {
    ensure(dir.join("pki"), &*ManualClock::new(NOW_MS))
}

fn everybody() -> Vec<Identity> {
    vec![
        Identity::Server(vec!["10.1.2.3".into()]),
        Identity::KubeletClient,
        Identity::Admin,
        Identity::ControllerManager,
        Identity::Scheduler,
        Identity::Node("node01".into()),
    ]
}

#[test]
fn what_is_there_is_kept_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    let made = first.issue_all(&everybody()).unwrap();
    let again = open(dir.path()).unwrap();
    assert_eq!(again.ca_pem(), first.ca_pem());
    assert_eq!(again.issue_all(&everybody()).unwrap(), made);
    for entry in fs::read_dir(dir.path().join("pki")).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
        assert!(!entry.file_name().to_string_lossy().ends_with(".tmp"), "{:?}", entry.path());
    }
    assert_eq!(fs::metadata(dir.path().join("pki")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_damaged_file_is_named_and_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().issue_all(&everybody()).unwrap();
    for name in ["admin.crt", "admin.key", "ca.crt", "ca.key"] {
        let path = dir.path().join("pki").join(name);
        let good = fs::read(&path).unwrap();
        for bad in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            fs::write(&path, bad).unwrap();
            let error = open(dir.path()).and_then(|pki| pki.issue(&Identity::Admin)).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Damaged { .. } | Error::DamagedAuthority { .. }), "{text}");
            assert!(text.contains(path.to_str().unwrap()) && text.contains("remove"), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), bad);
        }
        fs::write(&path, good).unwrap();
    }
    open(dir.path()).unwrap().issue_all(&everybody()).unwrap();
}

#[test]
fn halves_that_do_not_belong_together_are_told() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for dir in [&one, &two] {
        open(dir.path()).unwrap().issue_all(&everybody()).unwrap();
    }
    let (one, two) = (one.path().join("pki"), two.path().join("pki"));
    let said =
        |dir: &Path, identity| open(dir.parent().unwrap()).and_then(|p| p.issue(&identity)).unwrap_err().to_string();
    fs::copy(one.join("scheduler.key"), two.join("scheduler.key")).unwrap();
    assert!(said(&two, Identity::Scheduler).contains("does not belong to the key"));
    fs::copy(one.join("scheduler.crt"), two.join("scheduler.crt")).unwrap();
    assert!(said(&two, Identity::Scheduler).contains("was not signed by the authority"));
    fs::copy(two.join("admin.crt"), two.join("kubelet-client.crt")).unwrap();
    fs::copy(two.join("admin.key"), two.join("kubelet-client.key")).unwrap();
    assert!(said(&two, Identity::KubeletClient).contains("is for kubernetes-admin"));
    fs::copy(one.join("ca.key"), two.join("ca.key")).unwrap();
    assert!(said(&two, Identity::Admin).contains("does not belong to the key"));
}

#[test]
fn an_interrupted_start_is_finished_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().issue(&Identity::Admin).unwrap();
    fs::remove_file(dir.path().join("pki/admin.crt")).unwrap();
    open(dir.path()).unwrap().issue(&Identity::Admin).unwrap();
    fs::remove_file(dir.path().join("pki/admin.key")).unwrap();
    let text = open(dir.path()).unwrap().issue(&Identity::Admin).unwrap_err().to_string();
    assert!(text.contains("has no key beside it"), "{text}");
}

#[test]
fn an_expired_certificate_is_told_with_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(NOW_MS);
    ensure(dir.path(), &*clock).unwrap();
    clock.advance(Duration::from_secs(11 * 365 * 24 * 3600));
    let error = ensure(dir.path(), &*clock).unwrap_err();
    assert!(matches!(error, Error::NotValidNow { .. }), "{error}");
    assert!(error.to_string().contains("to 2035-12-"), "{error}");
    clock.jump_wall(-30 * 365 * 24 * 3_600_000);
    assert!(matches!(ensure(dir.path(), &*clock).unwrap_err(), Error::NotValidNow { .. }));
}

#[test]
fn a_server_certificate_must_carry_the_names_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let pki = open(dir.path()).unwrap();
    pki.issue(&Identity::Server(Vec::new())).unwrap();
    let error = pki.issue(&Identity::Server(vec!["192.0.2.7".into()])).unwrap_err();
    assert!(matches!(&error, Error::MissingName { name, .. } if name == "192.0.2.7"), "{error}");
}

#[test]
fn a_node_name_cannot_leave_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let pki = open(dir.path()).unwrap();
    for name in ["", "../x", "a/b", "Node", "-a", "a..b", "a_b"] {
        let error = pki.issue(&Identity::Node(name.into())).unwrap_err();
        assert!(matches!(error, Error::BadName { .. }), "{name:?}: {error}");
    }
    pki.issue(&Identity::Node("node-1.rack2".into())).unwrap();
}

#[test]
fn a_kubeconfig_is_ours_and_private_and_rewritten_only_on_change() {
    let dir = tempfile::tempdir().unwrap();
    let pki = open(dir.path()).unwrap();
    let admin = pki.issue(&Identity::Admin).unwrap();
    let path = dir.path().join("kubeconfig");
    let write = |server: &str| kubeconfig::write(&path, "default", server, pki.ca_pem(), &admin).unwrap();
    write("https://127.0.0.1:6443");
    let before = fs::metadata(&path).unwrap();
    assert_eq!(before.permissions().mode() & 0o777, 0o600);
    write("https://127.0.0.1:6443");
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before.modified().unwrap());
    write("https://127.0.0.1:7443");
    let config: Kubeconfig = serde_norway::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let selected = config.select(None).unwrap();
    assert!(selected.cluster.is_ours());
    assert_eq!(selected.cluster.server, "https://127.0.0.1:7443");
    assert!(selected.user.unwrap().client_key_data.is_some());
}
