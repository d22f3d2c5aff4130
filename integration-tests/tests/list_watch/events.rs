//! What a watch tells.

use serde_json::{Value, json};

use crate::door::{Door, Event, Follow, Read, Speaks, What, config_map, over_both_doors, pod, revision, server};

over_both_doors!(
    row_03_a_deletion_tells_its_own_revision,
    row_04_a_watch_begins_above_its_revision,
    row_19_a_deletion_between_list_and_watch_arrives,
    row_20_a_watch_shows_an_object_as_a_get_does,
    row_26_a_watch_that_is_resumed_repeats_nothing,
    row_29_objects_leave_and_enter_by_their_labels,
);

async fn row_03_a_deletion_tells_its_own_revision(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    let made = revision(&door.create("configmaps", &config_map("a", json!({}))).await.expect("created"));
    // Later than the last write of the object, something else happens.
    let other = revision(&door.create("configmaps", &config_map("other", json!({}))).await.expect("created"));
    let mut watch = door.watch("configmaps", "", Follow { above: other, ..Follow::default() }).await.expect("a watch");
    door.delete("configmaps", "a").await.expect("deleted");
    let event = watch.event().await;
    assert_eq!((event.what, event.name()), (What::Deleted, "a"));
    assert!(event.revision > other && event.revision > made);
    assert_eq!(revision(&event.object), event.revision, "the object tells the same");
    assert_eq!(event.object["data"], json!({"k": "v"}), "it is as it was");
    // From there on nothing is repeated: the next thing is the next write.
    let mut again =
        door.watch("configmaps", "", Follow { above: event.revision, ..Follow::default() }).await.expect("a watch");
    let next = revision(&door.create("configmaps", &config_map("next", json!({}))).await.expect("created"));
    assert_eq!(again.event().await.facts(), (What::Added, "next".to_owned(), next));
    Ok(())
}

async fn row_04_a_watch_begins_above_its_revision(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    let made = revision(&door.create("configmaps", &config_map("a", json!({}))).await.expect("created"));
    let mut at = door.watch("configmaps", "", Follow { above: made, ..Follow::default() }).await.expect("a watch");
    let mut before =
        door.watch("configmaps", "default", Follow { above: made - 1, ..Follow::default() }).await.expect("a watch");
    let next = revision(&door.create("configmaps", &config_map("b", json!({}))).await.expect("created"));
    assert_eq!(at.event().await.facts(), (What::Added, "b".to_owned(), next));
    assert_eq!(before.event().await.facts(), (What::Added, "a".to_owned(), made));
    assert_eq!(before.event().await.facts(), (What::Added, "b".to_owned(), next));
    Ok(())
}

async fn row_19_a_deletion_between_list_and_watch_arrives(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    door.create("configmaps", &config_map("a", json!({}))).await.expect("created");
    let list = door.list("configmaps", "default", Read::default()).await.expect("a list");
    assert_eq!(list.items.len(), 1);
    door.delete("configmaps", "a").await.expect("deleted");
    let follow = Follow { above: list.revision, ..Follow::default() };
    let mut watch = door.watch("configmaps", "default", follow).await.expect("a watch");
    let event = watch.event().await;
    assert_eq!((event.what, event.name()), (What::Deleted, "a"));
    Ok(())
}

/// An object in which most is left to the server, so that there is something to default.
fn sparse(kind: &str) -> Value {
    match kind {
        "pods" => pod("a"),
        "nodes" => json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}),
        "leases" => json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a", "namespace": "default"},
        }),
        "deployments" => json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {
                    "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "pause"}]},
                },
            },
        }),
        _ => config_map("a", json!({})),
    }
}

async fn row_20_a_watch_shows_an_object_as_a_get_does(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    for kind in ["pods", "nodes", "leases", "deployments", "configmaps"] {
        let namespace = if kind == "nodes" { "" } else { "default" };
        let mut live = door.watch(kind, namespace, Follow::default()).await.expect("a watch");
        let made = door.create(kind, &sparse(kind)).await.expect("created");
        let got = door.get(kind, namespace, "a").await.expect("there");
        // The answer of the write, the live event, the state of a watch, the replay: the same object.
        assert_eq!(made, got, "{kind}: created");
        assert_eq!(live.event().await.object, got, "{kind}: live");
        let mut state =
            door.watch(kind, namespace, Follow { state: true, ..Follow::default() }).await.expect("a watch");
        assert_eq!(state.event().await.object, got, "{kind}: state");
        let above = revision(&got) - 1;
        let mut replay = door.watch(kind, namespace, Follow { above, ..Follow::default() }).await.expect("a watch");
        assert_eq!(replay.event().await.object, got, "{kind}: replay");
        // An item of a list does not tell its kind over REST; all else is equal.
        let mut item = door.list(kind, namespace, Read::default()).await.expect("a list").items.remove(0);
        item["apiVersion"] = got["apiVersion"].clone();
        item["kind"] = got["kind"].clone();
        assert_eq!(item, got, "{kind}: listed");
    }
    Ok(())
}

async fn row_26_a_watch_that_is_resumed_repeats_nothing(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    for name in ["a", "b", "c"] {
        door.create("configmaps", &config_map(name, json!({}))).await.expect("created");
    }
    let follow = Follow { state: true, impatient: true, ..Follow::default() };
    let mut watch = door.watch("configmaps", "default", follow).await.expect("a watch");
    let (state, mut stands) = watch.state().await.expect("the state");
    assert_eq!(state.len(), 3);
    // Over REST the stream comes to its end by its timeout; over gRPC it is left.
    while let Door::Rest(_) = door
        && let Some(event) = watch.next().await.expect("no error")
    {
        assert_eq!(event.what, What::Bookmark, "{event:?}");
        stands = event.revision;
    }
    drop(watch);
    let follow = Follow { above: stands, ..Follow::default() };
    let mut watch = door.watch("configmaps", "default", follow).await.expect("a watch");
    let next = revision(&door.create("configmaps", &config_map("d", json!({}))).await.expect("created"));
    let event: Event = watch.event().await;
    assert_eq!(event.facts(), (What::Added, "d".to_owned(), next), "nothing of what was told is told again");
    Ok(())
}

async fn row_29_objects_leave_and_enter_by_their_labels(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    door.create("configmaps", &config_map("a", json!({"app": "web"}))).await.expect("created");
    let follow = Follow { labels: "app=web", ..Follow::default() };
    let mut watch = door.watch("configmaps", "", follow).await.expect("a watch");
    let label = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    let out = revision(&door.merge("configmaps", "a", label("db")).await.expect("changed"));
    let event = watch.event().await;
    assert_eq!(event.facts(), (What::Deleted, "a".to_owned(), out));
    assert_eq!(event.object["metadata"]["labels"]["app"], "web", "as it last was in the selection");
    assert_eq!(revision(&event.object), out);
    assert!(door.get("configmaps", "default", "a").await.is_ok(), "the object is still there");
    door.merge("configmaps", "a", json!({"data": {"k": "w"}})).await.expect("changed outside");
    let back = revision(&door.merge("configmaps", "a", label("web")).await.expect("changed"));
    assert_eq!(watch.event().await.facts(), (What::Added, "a".to_owned(), back));
    Ok(())
}
