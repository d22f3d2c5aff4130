//! What an operator asks of the store.

use listwatch_components::client::{Client, ClientConfig};
use listwatch_integration_tests::{Server, eventually};
use listwatch_proto::resource::{Reason, Status};
use listwatch_proto::v1;

use crate::door::{Door, LIMIT, admin, config, lease, leases, object, reference};

async fn watchers(client: &Client) -> Vec<v1::Watcher> {
    let answer = client.admin().watchers(v1::WatchersRequest {}).await.expect("watchers").into_inner();
    answer.watchers.into_iter().filter(|watcher| watcher.client.starts_with("test-")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_are_told_with_who_what_and_how_far() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let admin = admin(&server);
    let door = Door::of(&Client::new(&ClientConfig { client_name: "test-a".into(), ..config(&server) })?);
    let mut one = door
        .watch(v1::WatchRequest { label_selector: "app=web".into(), ..leases() })
        .await
        .expect("a watch with a selector");
    let _other = door
        .watch(v1::WatchRequest { resource: Some(reference("nodes", "", "")), ..leases() })
        .await
        .expect("another watch");
    door.create("leases", &lease("a", serde_json::json!({"app": "web"}))).await.expect("created");
    one.event().await;
    eventually(LIMIT, "both watchers are told, in step", async || {
        let seen = watchers(&admin).await;
        let in_step = seen.iter().all(|w| w.state == "synced" && w.lag == 0);
        if seen.len() == 2 && in_step { Ok(()) } else { Err(seen) }
    })
    .await;
    let written = object(&door.change("a", serde_json::json!({"spec": {"leaseTransitions": 1}})).await).revision;
    one.event().await;
    let seen = eventually(LIMIT, "the event that was sent is told", async || {
        let seen = watchers(&admin).await;
        let told = seen.iter().any(|w| w.events_sent >= 1 && w.sent_revision >= written);
        if told { Ok(seen) } else { Err(seen) }
    })
    .await;
    let leases = seen.iter().find(|w| w.target.contains("leases")).expect("the watch of leases");
    assert_eq!(
        (leases.door.as_str(), leases.user.as_str(), leases.client.as_str()),
        ("resources", "kubernetes-admin", "test-a")
    );
    assert!(leases.target.contains("default") && leases.target.contains("app=web"), "{}", leases.target);
    assert!(seen.iter().any(|w| w.target.starts_with("nodes")), "{seen:?}");

    drop(one);
    eventually(LIMIT, "a watch that was closed is forgotten", async || match watchers(&admin).await.len() {
        1 => Ok(()),
        count => Err(count),
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn expire_moves_the_floor_and_no_further_than_now() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let (client, door) = (admin(&server), Door::admin(&server));
    for name in ["a", "b", "c"] {
        door.create("leases", &lease(name, serde_json::json!({}))).await.expect("created");
    }
    let now = door.revision().await;
    let expire = async |revision| {
        let answer = client.admin().expire(v1::ExpireRequest { revision }).await;
        answer.map(tonic::Response::into_inner).map_err(|error| Status::from_grpc(&error))
    };
    for wrong in [-1, now + 1000] {
        let error = expire(wrong).await.expect_err("no such revision");
        assert_eq!(error.reason, Reason::BadRequest, "{wrong}: {}", error.message);
    }
    let part = expire(now - 1).await.expect("a part of history");
    assert_eq!((part.retained_revision, part.revision), (now - 1, now));
    let all = expire(0).await.expect("all history");
    assert_eq!((all.retained_revision, all.revision), (now, now));
    assert!(all.compacted_revision >= now - 1, "{all:?}");
    // Again is no fault: the floor is where it was asked to be.
    assert_eq!(expire(0).await.map(|a| a.retained_revision), Ok(now));
    Ok(())
}
