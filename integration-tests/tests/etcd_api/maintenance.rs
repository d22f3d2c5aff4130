//! Cluster, Maintenance and Auth: what a store with one member answers.

use std::time::Instant;

use listwatch_integration_tests::etcd::{Client, revision};
use listwatch_proto::etcd::etcdserverpb::{
    AlarmRequest, AuthEnableRequest, AuthStatusRequest, AuthenticateRequest, DefragmentRequest, HashKvRequest,
    HashRequest, MemberListRequest, MemberPromoteRequest, MoveLeaderRequest, SnapshotRequest, StatusRequest,
    alarm_request::AlarmAction,
};
use tonic::Code;

use crate::{Target, refused};

#[tokio::test(flavor = "multi_thread")]
async fn status_names_a_version_that_clients_can_read() {
    let target = Target::start("status").await;
    let put = target.client.put_at(target.key("k"), "v").await.unwrap();
    let status = target.client.maintenance.clone().status(StatusRequest {}).await.unwrap().into_inner();
    let parts: Vec<u64> = status.version.split('.').map(|part| part.parse().expect("a number")).collect();
    assert!(parts.len() == 3 && (parts[0], parts[1], parts[2]) >= (3, 5, 13), "{}", status.version);
    let header = status.header.unwrap();
    assert_eq!(header.revision, put);
    assert!(header.cluster_id != 0 && header.member_id != 0 && header.raft_term > 0);
    assert_eq!((status.leader, status.raft_term), (header.member_id, header.raft_term));
    assert!(status.db_size > 0 && status.raft_index > 0 && status.errors.is_empty(), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_stays_and_the_term_grows_over_restarts() {
    let mut target = Target::start("identity").await;
    let Some(server) = &mut target.server else { return println!("skipped: needs a server of its own") };
    let put = target.client.put("k", "v").await.unwrap().header.unwrap();
    server.stop_and_restart().unwrap();
    let client = Client::connect(&server.endpoint()).await.unwrap();
    let again = client.put("k", "v").await.unwrap().header.unwrap();
    assert_eq!((again.cluster_id, again.member_id), (put.cluster_id, put.member_id));
    assert_eq!(again.revision, put.revision + 1);
    assert!(again.raft_term > put.raft_term);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_has_one_member() {
    let target = Target::start("members").await;
    let list = target.client.cluster.clone().member_list(MemberListRequest { linearizable: true }).await;
    let list = list.unwrap().into_inner();
    let header = list.header.unwrap();
    assert_eq!((list.members.len(), header.revision), (1, 0));
    let member = &list.members[0];
    assert_eq!(member.id, header.member_id);
    assert_eq!(member.client_ur_ls, std::slice::from_ref(&target.endpoint));
    let mut cluster = target.client.cluster.clone();
    let ours = cluster.member_promote(MemberPromoteRequest { id: member.id }).await;
    refused(ours, Code::FailedPrecondition, "etcdserver: can only promote a learner member");
    let unknown = cluster.member_promote(MemberPromoteRequest { id: 4711 }).await;
    refused(unknown, Code::NotFound, "etcdserver: member not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_answers_at_once() {
    let target = Target::start("maintenance").await;
    let mut maintenance = target.client.maintenance.clone();
    let get = AlarmRequest { action: AlarmAction::Get.into(), ..AlarmRequest::default() };
    assert!(maintenance.alarm(get).await.unwrap().into_inner().alarms.is_empty());
    let begin = Instant::now();
    maintenance.defragment(DefragmentRequest {}).await.unwrap();
    assert!(begin.elapsed().as_secs() < 2);
    let text = "etcdserver: bad leader transferee";
    refused(maintenance.move_leader(MoveLeaderRequest { target_id: 1 }).await, Code::FailedPrecondition, text);
    if target.is_ours() {
        let status = maintenance.snapshot(SnapshotRequest {}).await.unwrap_err();
        assert!(status.code() == Code::Unimplemented && status.message().contains("Snapshot"), "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hashes_depend_on_the_data_and_survive_a_restart() {
    let mut target = Target::start("hash").await;
    let hash = |client: &Client, at: i64| {
        let mut maintenance = client.maintenance.clone();
        async move { maintenance.hash_kv(HashKvRequest { revision: at }).await.unwrap().into_inner() }
    };
    let first = target.client.put_at(target.key("a"), "1").await.unwrap();
    let one = hash(&target.client, 0).await;
    assert_eq!((one.hash_revision, revision(&one.header)), (first, first));
    target.client.put(target.key("a"), "2").await.unwrap();
    let two = hash(&target.client, 0).await;
    assert_ne!(one.hash, two.hash);
    assert_eq!(hash(&target.client, first).await.hash, one.hash, "at an old revision it is the old one");
    target.client.maintenance.clone().hash(HashRequest {}).await.unwrap();
    let Some(server) = &mut target.server else { return };
    server.kill_and_restart().unwrap();
    let client = Client::connect(&server.endpoint()).await.unwrap();
    assert_eq!(hash(&client, 0).await.hash, two.hash);
    assert_eq!(hash(&client, first).await.hash, one.hash);
}

#[tokio::test(flavor = "multi_thread")]
async fn authentication_is_off_and_cannot_be_turned_on() {
    let target = Target::start("auth").await;
    let mut auth = target.client.auth.clone();
    let status = auth.auth_status(AuthStatusRequest {}).await.unwrap().into_inner();
    assert!(!status.enabled);
    let login = AuthenticateRequest { name: "root".to_owned(), password: "x".to_owned() };
    let text = "etcdserver: authentication is not enabled";
    refused(auth.authenticate(login).await, Code::FailedPrecondition, text);
    if target.is_ours() {
        assert_eq!(status.auth_revision, 1);
        let status = auth.auth_enable(AuthEnableRequest {}).await.unwrap_err();
        assert!(status.code() == Code::Unimplemented && status.message().contains("AuthEnable"), "{status:?}");
    }
}
