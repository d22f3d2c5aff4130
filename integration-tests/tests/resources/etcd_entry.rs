//! Who enters etcd's port where its authority also signs the certificates of nodes and components: the administrator
//! alone, whatever is asked. The other half of the matrix of rights, beside `auth`.

use std::net::SocketAddr;

use listwatch_integration_tests::Process;
use listwatch_proto::etcd::etcdserverpb::{
    DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest, RangeResponse, TxnRequest, WatchCreateRequest,
    WatchRequest, request_op::Request, watch_request::RequestUnion,
};
use listwatch_proto::etcd::etcdserverpb::{LeaseLeasesResponse, RequestOp};
use listwatch_server::clock::SystemClock;
use listwatch_server::pki::{self, Identity};
use prost::Message;
use tonic::Code;
use tonic::transport::Channel;

use crate::raw;

const KEY: &[u8] = b"/registry/secrets/default/top";
const RANGE: &str = "/etcdserverpb.KV/Range";
const PUT: &str = "/etcdserverpb.KV/Put";

/// A server whose two ports trust one authority, as `lw up` starts it.
struct Plane {
    folder: tempfile::TempDir,
    etcd: SocketAddr,
    _server: Process,
}

impl Plane {
    fn start() -> anyhow::Result<Plane> {
        let folder = tempfile::tempdir()?;
        let pki = pki::ensure(folder.path().join("pki"), &*SystemClock::shared())?;
        let node = Identity::Node("node01".to_owned());
        let all =
            [Identity::Server(Vec::new()), Identity::Admin, Identity::ControllerManager, Identity::Scheduler, node];
        pki.issue_all(&all)?;
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (ca, certificate, key) = (file("pki/ca.crt"), file("pki/server.crt"), file("pki/server.key"));
        let data = file("data");
        let args = [
            ["server", "--data-dir", &data, "--secure-port", "0"].as_slice(),
            &["--tls-cert-file", &certificate, "--tls-private-key-file", &key, "--client-ca-file", &ca],
            &["--listen-client-urls", "https://127.0.0.1:0", "--client-cert-auth"],
            &["--cert-file", &certificate, "--key-file", &key, "--trusted-ca-file", &ca],
        ]
        .concat();
        let server = Process::start("server", folder.path(), &args)?;
        let etcd = server.address("client");
        Ok(Plane { etcd, _server: server, folder })
    }

    fn client(&self, certificate: &str) -> Channel {
        raw::connection(&self.folder.path().join("pki"), Some(certificate), self.etcd)
    }
}

fn put(value: &'static [u8]) -> PutRequest {
    PutRequest { key: KEY.into(), value: value.into(), ..PutRequest::default() }
}

/// Every way to the keys, and what tells of them.
fn asked() -> Vec<(&'static str, Vec<u8>)> {
    let range = RangeRequest { key: KEY.into(), ..RangeRequest::default() };
    let delete = DeleteRangeRequest { key: KEY.into(), ..DeleteRangeRequest::default() };
    let operation = RequestOp { request: Some(Request::RequestPut(put(b"stolen"))) };
    let txn = TxnRequest { success: vec![operation], ..TxnRequest::default() };
    let watch = WatchCreateRequest { key: KEY.into(), start_revision: 1, ..WatchCreateRequest::default() };
    let watch = WatchRequest { request_union: Some(RequestUnion::CreateRequest(watch)) };
    let lease = LeaseGrantRequest { ttl: 60, id: 7 };
    vec![
        (RANGE, range.encode_to_vec()),
        ("/etcdserverpb.KV/RangeStream", range.encode_to_vec()),
        (PUT, put(b"stolen").encode_to_vec()),
        ("/etcdserverpb.KV/DeleteRange", delete.encode_to_vec()),
        ("/etcdserverpb.KV/Txn", txn.encode_to_vec()),
        ("/etcdserverpb.KV/Compact", vec![]),
        ("/etcdserverpb.Watch/Watch", watch.encode_to_vec()),
        ("/etcdserverpb.Lease/LeaseGrant", lease.encode_to_vec()),
        ("/etcdserverpb.Lease/LeaseRevoke", vec![]),
        ("/etcdserverpb.Lease/LeaseKeepAlive", vec![]),
        ("/etcdserverpb.Lease/LeaseTimeToLive", vec![]),
        ("/etcdserverpb.Lease/LeaseLeases", vec![]),
        ("/etcdserverpb.Cluster/MemberList", vec![]),
        ("/etcdserverpb.Maintenance/Status", vec![]),
        ("/etcdserverpb.Maintenance/Alarm", vec![]),
        ("/etcdserverpb.Maintenance/HashKV", vec![]),
        ("/etcdserverpb.Maintenance/Snapshot", vec![]),
        ("/etcdserverpb.Auth/AuthStatus", vec![]),
        ("/etcdserverpb.Auth/UserAdd", vec![]),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", vec![]),
        ("/listwatch.v1.Admin/Watchers", vec![]),
        ("/no.Service/Method", vec![]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_component_reaches_the_keys_past_the_rules() -> anyhow::Result<()> {
    let plane = Plane::start()?;
    let admin = plane.client("admin");
    raw::grpc(&admin, PUT, put(b"kept").encode_to_vec(), &[]).await.expect("the administrator writes");
    for (certificate, user) in [
        ("node-node01", "system:node:node01"),
        ("scheduler", "system:kube-scheduler"),
        ("controller-manager", "system:kube-controller-manager"),
    ] {
        let client = plane.client(certificate);
        for (path, message) in asked() {
            let refused = raw::grpc(&client, path, message, &[]).await.expect_err(path);
            assert_eq!(refused.code(), Code::PermissionDenied, "{user} {path}: {refused}");
            for part in ["etcdserver: permission denied", user, "system:masters"] {
                assert!(refused.message().contains(part), "{user} {path}: {refused}");
            }
        }
        let (code, body) = raw::get(&client, "/metrics").await;
        assert_eq!(code, 403, "{body}");
        // Probes go on.
        let (code, body) = raw::get(&client, "/readyz").await;
        assert_eq!(code, 200, "{body}");
        raw::grpc(&client, "/grpc.health.v1.Health/Check", vec![], &[]).await.expect("health is open");
    }

    let range = RangeRequest { key: KEY.into(), ..RangeRequest::default() }.encode_to_vec();
    let read = RangeResponse::decode(raw::grpc(&admin, RANGE, range, &[]).await.expect("the administrator reads"))?;
    let [kv] = read.kvs.as_slice() else { anyhow::bail!("one key: {read:?}") };
    assert_eq!((&*kv.value, kv.version), (&b"kept"[..], 1), "nothing was written");
    let leases = raw::grpc(&admin, "/etcdserverpb.Lease/LeaseLeases", vec![], &[]).await.expect("the leases");
    assert!(LeaseLeasesResponse::decode(leases)?.leases.is_empty(), "no lease was made");
    Ok(())
}
