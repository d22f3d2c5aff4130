//! Debian's etcdctl against a real `lw server`: what a person types must work and print what it prints with etcd.
//!
//! Where etcdctl is not installed the tests say so and pass, unless `CI=true` demands it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use listwatch_integration_tests::Server;
use listwatch_integration_tests::foreign::missing;

/// Whether etcdctl is there.
fn etcdctl_is_there() -> bool {
    if Command::new("etcdctl").arg("version").output().is_ok() {
        return true;
    }
    missing("etcdctl is not installed: apt-get install etcd-client");
    false
}

/// A server for one test.
struct Shell {
    server: Server,
}

impl Shell {
    fn start() -> Option<Shell> {
        etcdctl_is_there().then(|| Shell { server: Server::start(&[]).expect("the server starts") })
    }

    fn command(&self, args: &str) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").env("ETCDCTL_ENDPOINTS", self.server.client_address().to_string());
        command.args(args.split_whitespace());
        command
    }

    /// Standard output of `etcdctl ARGS`, which must succeed.
    #[track_caller]
    fn run(&self, args: &str) -> String {
        let Output { status, stdout, stderr } = self.command(args).output().expect("etcdctl starts");
        let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "etcdctl {args}: {out}{err}");
        out.into_owned()
    }

    /// Standard error of `etcdctl ARGS`, which must fail.
    #[track_caller]
    fn refuse(&self, args: &str) -> String {
        let Output { status, stderr, .. } = self.command(args).output().expect("etcdctl starts");
        assert!(!status.success(), "etcdctl {args} must fail");
        String::from_utf8_lossy(&stderr).into_owned()
    }

    fn json(&self, args: &str) -> serde_json::Value {
        serde_json::from_str(&self.run(&format!("{args} --write-out=json"))).expect("etcdctl prints JSON")
    }
}

/// An etcdctl that runs until the test ends, however it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn put_get_and_del() {
    let Some(shell) = Shell::start() else { return };
    assert_eq!(shell.run("put /a/1 one"), "OK\n");
    assert_eq!(shell.run("put /a/2 two"), "OK\n");
    assert_eq!(shell.run("put /b three --prev-kv"), "OK\n");
    assert_eq!(shell.run("get /a/1"), "/a/1\none\n");
    assert_eq!(shell.run("get --prefix /a/"), "/a/1\none\n/a/2\ntwo\n");
    assert_eq!(shell.run("get --prefix /a/ --keys-only"), "/a/1\n\n/a/2\n\n");
    assert_eq!(shell.run("get --from-key /a/2 --print-value-only"), "two\nthree\n");
    assert_eq!(shell.run("get --prefix / --limit=1 --order=DESCEND --sort-by=CREATE"), "/b\nthree\n");
    let revision = shell.json("get /a/1")["kvs"][0]["mod_revision"].as_i64().expect("a revision");
    assert_eq!(shell.run("put /a/1 new --prev-kv"), "OK\n/a/1\none\n");
    assert_eq!(shell.run(&format!("get /a/1 --rev={revision}")), "/a/1\none\n");
    assert_eq!(shell.run("del /a/1 --prev-kv"), "1\n/a/1\nnew\n");
    assert_eq!(shell.run("del --prefix /"), "2\n");
    assert_eq!(shell.run("get --prefix /"), "");
}

#[test]
fn txn() {
    let Some(shell) = Shell::start() else { return };
    shell.run("put key old");
    let mut child = shell.command("txn").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("etcdctl starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"value(\"key\") = \"old\"\n\nput key new\nget key\n\nput key other\n\n").expect("etcdctl reads");
    drop(input);
    let out = child.wait_with_output().expect("etcdctl ends");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "SUCCESS\n\nOK\n\nkey\nnew\n");
}

#[test]
fn watch_from_a_revision_with_prefix_and_previous_values() {
    let Some(shell) = Shell::start() else { return };
    shell.run("put /w/a 1");
    let revision = shell.json("get /w/a")["header"]["revision"].as_i64().expect("a revision");
    shell.run("put /w/a 2");
    let command = format!("watch --rev={revision} --prefix --prev-kv /w/");
    let mut watch = Running(shell.command(&command).stdout(Stdio::piped()).spawn().expect("etcdctl starts"));
    let mut lines = BufReader::new(watch.0.stdout.take().expect("a pipe")).lines();
    let mut next = |count: usize| -> Vec<String> {
        (0..count).map(|_| lines.next().expect("etcdctl prints on").expect("text")).collect()
    };
    assert_eq!(next(3), ["PUT", "/w/a", "1"]);
    assert_eq!(next(5), ["PUT", "/w/a", "1", "/w/a", "2"]);
    shell.run("del /w/a");
    assert_eq!(next(5), ["DELETE", "/w/a", "2", "/w/a", ""]);
}

#[test]
fn leases() {
    let Some(shell) = Shell::start() else { return };
    let granted = shell.run("lease grant 60");
    let id = granted.split_whitespace().nth(1).expect("an id").to_owned();
    assert_eq!(granted, format!("lease {id} granted with TTL(60s)\n"));
    shell.run(&format!("put --lease={id} /l/a v"));
    assert_eq!(shell.run(&format!("lease keep-alive --once {id}")), format!("lease {id} keepalived with TTL(60)\n"));
    let left = shell.run(&format!("lease timetolive --keys {id}"));
    assert!(left.starts_with(&format!("lease {id} granted with TTL(60s), remaining(")), "{left}");
    assert!(left.trim_end().ends_with("attached keys([/l/a])"), "{left}");
    assert_eq!(shell.run("lease list"), format!("found 1 leases\n{id}\n"));
    assert_eq!(shell.run(&format!("lease revoke {id}")), format!("lease {id} revoked\n"));
    assert_eq!(shell.run("get /l/a"), "");
    assert_eq!(shell.run(&format!("lease timetolive {id}")), format!("lease {id} already expired\n"));
    let refused = shell.refuse(&format!("lease revoke {id}"));
    assert!(refused.contains("etcdserver: requested lease not found"), "{refused}");
}

#[test]
fn compaction() {
    let Some(shell) = Shell::start() else { return };
    shell.run("put k 1");
    shell.run("put k 2");
    assert_eq!(shell.run("compact 3"), "compacted revision 3\n");
    let refused = shell.refuse("get k --rev=2");
    assert!(refused.contains("etcdserver: mvcc: required revision has been compacted"), "{refused}");
    let refused = shell.refuse("compact 3");
    assert!(refused.contains("required revision has been compacted"), "{refused}");
    assert_eq!(shell.run("get k --rev=3"), "k\n2\n");
}

#[test]
fn endpoints_members_and_the_rest() {
    let Some(shell) = Shell::start() else { return };
    let health = shell.command("endpoint health").output().expect("etcdctl starts");
    let text = format!("{}{}", String::from_utf8_lossy(&health.stdout), String::from_utf8_lossy(&health.stderr));
    assert!(health.status.success() && text.contains("is healthy: successfully committed proposal"), "{text}");
    shell.run("put k v");
    let status = shell.json("endpoint status");
    assert_eq!(status[0]["Status"]["header"]["revision"], 2);
    assert_eq!(status[0]["Status"]["leader"], status[0]["Status"]["header"]["member_id"]);
    assert!(status[0]["Status"]["version"].as_str().is_some_and(|version| version.starts_with("3.")), "{status}");
    let members = shell.json("member list");
    assert_eq!(members["members"].as_array().map(Vec::len), Some(1), "{members}");
    assert_eq!(members["members"][0]["clientURLs"][0], shell.server.endpoint());
    let cluster = shell.run("endpoint status --cluster");
    assert!(cluster.contains(&shell.server.client_address().to_string()), "{cluster}");
    assert!(shell.json("endpoint hashkv")[0]["HashKV"]["hash"].is_number());
    assert_eq!(shell.run("alarm list"), "");
    assert!(shell.run("defrag").contains("Finished defragmenting"));
    assert_eq!(shell.run("user list"), "");
    let refused = shell.refuse("auth enable");
    assert!(refused.contains("is not supported by this server"), "{refused}");
}

#[test]
fn locks_that_etcdctl_builds_from_leases_and_watches() {
    let Some(shell) = Shell::start() else { return };
    assert_eq!(shell.run("lock name echo locked"), "locked\n");
    assert_eq!(shell.run("lock name echo again"), "again\n", "the lock was let go");
}
