//! The client: identity on each call, errors as the server told them, paging, deadlines, a server that is away.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use listwatch_components::client::{Api, Client, ClientConfig, DeleteParams, Error, ListParams, Patch};
use listwatch_proto::resource::{Object, ObjectKey};
use serde_json::json;
use tokio::net::TcpListener;

use crate::scripted::{LIMIT, Server};

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({"metadata": {"namespace": "default", "name": name}})).expect("a pod")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

#[tokio::test]
async fn verbs_and_errors_arrive_as_the_server_tells_them() {
    let server = Server::start();
    let pods = Api::<Pod>::new(&server.client());
    let created = pods.create(&pod("a")).await.expect("created");
    assert_eq!((created.key.to_string(), created.revision), ("default/a".to_owned(), 1));

    let again = pods.create(&pod("a")).await.expect_err("exists");
    assert!(again.is_already_exists());
    assert_eq!(again.to_string(), "pods \"a\" already exists");

    let patched = pods.patch(&key("a"), &Patch::Merge(json!({"spec": {"nodeName": "n"}}))).await.expect("patched");
    assert_eq!(patched.spec.as_ref().and_then(|s| s.node_name.as_deref()), Some("n"));

    let stale = pods.update(&created.object).await.expect_err("stale");
    assert!(stale.is_conflict(), "{stale}");
    assert!(pods.delete(&key("a"), &DeleteParams::any()).await.expect("deleted").removed);
    assert!(pods.get(&key("a")).await.expect_err("gone").is_not_found());
    assert!(pods.get_opt(&key("a")).await.expect("an answer").is_none());
}

#[tokio::test]
async fn every_call_says_who_asks_and_what_was_seen() {
    let server = Server::start();
    let mut config = server.config();
    config.token = Some("s3cret".to_owned());
    let client = Client::new(&config).expect("a client");
    let pods = Api::<Object>::of_kind(&client, listwatch_proto::resource::Kind::by_name("pod").expect("known"));
    let created = pods.create(&Object::encode(&pod("a")).expect("JSON")).await.expect("created");
    assert_eq!(client.seen_revision(), created.revision);
    pods.get(&key("a")).await.expect("there");
    let metadata = server.shared.metadata.lock().clone();
    let text = |name: &str| metadata.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    assert_eq!(text("authorization"), "Bearer s3cret");
    assert_eq!(text("lw-client"), "test");
    assert_eq!(text("lw-seen-revision"), "1");
    assert!(metadata.contains_key("grpc-timeout"));
}

#[tokio::test]
async fn a_list_of_many_pages_is_one_list() {
    let server = Server::start();
    let pods = Api::<Pod>::new(&server.client());
    for name in ["a", "b", "c", "d", "e"] {
        pods.create(&pod(name)).await.expect("created");
    }
    let list = pods.list(&ListParams::in_namespace("default")).await.expect("listed");
    let names: Vec<_> = list.items.iter().map(|p| p.key.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    assert_eq!(list.revision, 5);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_a_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let mut config = ClientConfig::new(format!("http://{}", listener.local_addr().expect("bound")));
    config.request_timeout = Duration::from_millis(100);
    let pods = Api::<Pod>::new(&Client::new(&config).expect("a client"));
    let error = pods.get(&key("a")).await.expect_err("nobody answers");
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    assert!(error.is_transient());
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_and_not_hammered_meanwhile() {
    let server = Server::start();
    let (client, address) = (server.client(), server.address);
    let pods = Api::<Pod>::new(&client);
    pods.create(&pod("a")).await.expect("created");
    drop(server);
    let mut failures = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        let error = pods.get(&key("a")).await.expect_err("nobody there");
        assert!(error.is_transient(), "{error:?}");
        failures += 1;
    }
    // Pauses of 20, 40, 80, 160, 320 and 500 ms, up to half as much longer: the caller need not pause itself.
    assert!((2..=12).contains(&failures), "{failures} attempts in a second");
    let server = Server::start_at(&address.to_string());
    client.wait_ready(LIMIT).await.expect("it is back");
    assert!(pods.get(&key("a")).await.expect_err("another server").is_not_found());
    drop(server);
}

#[tokio::test]
async fn an_address_without_trust_is_refused_with_what_to_do() {
    for (address, word) in
        [("https://127.0.0.1:1", "--certificate-authority"), ("127.0.0.1:1", "https://"), ("https://", "address")]
    {
        let error = Client::new(&ClientConfig::new(address)).expect_err(address).to_string();
        assert!(error.contains(word), "{address}: {error}");
    }
}
