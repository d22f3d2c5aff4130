//! The contract of watches on this door.

use std::time::{Duration, Instant};

use listwatch_integration_tests::Server;
use listwatch_proto::resource::Reason;
use listwatch_proto::v1::{self, EventType, WatchRequest};
use serde_json::json;

use crate::door::{Door, admin, content, facts, lease, leases, object, pod, reference, revision_of};

#[tokio::test(flavor = "multi_thread")]
async fn state_then_its_end_then_what_happens() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    for name in ["a", "b", "c"] {
        door.create("leases", &lease(name, json!({}))).await.expect("created");
    }
    let now = door.revision().await;
    let mut watch = door.watch(WatchRequest { send_initial_events: true, ..leases() }).await.expect("a watch");
    let (mut state, mut end) = (Vec::new(), None);
    while end.is_none() {
        let message = watch.next().await.expect("no error").expect("no end");
        let header = revision_of(&message.header);
        for event in message.events {
            assert!(end.is_none() || event.revision > now, "nothing of the state comes behind its end");
            if event.initial_events_end {
                assert_eq!((event.r#type(), event.revision, header), (EventType::Bookmark, now, now));
                end = Some(event.revision);
            } else {
                state.push(facts(&event));
            }
        }
        assert!(end.is_some() || header < now, "the header claims no progress before the state is complete");
    }
    let names: Vec<_> = state.iter().map(|(kind, name, _)| (*kind, name.as_str())).collect();
    assert_eq!(names, [(EventType::Added, "a"), (EventType::Added, "b"), (EventType::Added, "c")]);

    let created = object(&door.create("leases", &lease("d", json!({}))).await.expect("created")).revision;
    assert_eq!(facts(&watch.event().await), (EventType::Added, "d".into(), created));
    let changed = object(&door.change("a", json!({"spec": {"leaseTransitions": 1}})).await).revision;
    let event = watch.event().await;
    assert_eq!(facts(&event), (EventType::Modified, "a".into(), changed));
    assert_eq!(event.object.expect("an object").revision, changed);
    let request = v1::DeleteRequest { resource: Some(reference("leases", "default", "b")), ..Default::default() };
    let deleted = revision_of(&door.delete(request).await.expect("deleted").header);
    let event = watch.event().await;
    assert_eq!(facts(&event), (EventType::Deleted, "b".into(), deleted));
    assert_eq!(content(&event.object.expect("as it was"))["metadata"]["resourceVersion"], json!(deleted.to_string()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_after_kill_9_without_loss_or_repetition() -> anyhow::Result<()> {
    let mut server = Server::start(&[])?;
    let door = Door::admin(&server);
    let start = door.revision().await;
    let incarnation = door.incarnation().await;
    let created = object(&door.create("leases", &lease("a", json!({}))).await.expect("created")).revision;
    let mut written = Vec::new();
    for round in 0..40 {
        written.push(object(&door.change("a", json!({"spec": {"leaseTransitions": round}})).await).revision);
    }
    let from = |revision| WatchRequest { start_revision: revision, incarnation: incarnation.clone(), ..leases() };
    // A few are read, then the server is killed under the watch.
    let mut watch = door.watch(from(start)).await.expect("a watch");
    let mut seen: Vec<i64> = watch.until(written[9]).await.iter().map(|event| event.revision).collect();
    server.kill_and_restart()?;
    while let Ok(Some(message)) = watch.next().await {
        seen.extend(message.events.iter().map(|event| event.revision));
    }
    seen.dedup();
    let stands = *seen.last().expect("some were seen");

    let door = Door::admin(&server);
    for round in 40..50 {
        written.push(object(&door.change("a", json!({"spec": {"leaseTransitions": round}})).await).revision);
    }
    let mut watch = door.watch(from(stands)).await.expect("the same history");
    let last = *written.last().expect("written");
    let rest = watch.until(last).await;
    seen.extend(rest.iter().filter(|event| event.object.is_some()).map(|event| event.revision));
    let mut wanted = vec![created];
    wanted.extend(&written);
    assert_eq!(seen, wanted);

    // From any revision again: the same events, each with the object of its time.
    let mut watch = door.watch(from(written[20])).await.expect("a watch");
    let again: Vec<_> = watch.until(last).await.into_iter().filter(|event| event.object.is_some()).collect();
    assert_eq!(again.iter().map(|event| event.revision).collect::<Vec<_>>(), written[21..]);
    for (round, event) in (21..).zip(&again) {
        let object = content(event.object.as_ref().expect("an object"));
        assert_eq!(object["spec"]["leaseTransitions"], json!(round));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_enter_and_leave_a_selection() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    let mut watch = door.watch(WatchRequest { label_selector: "app=web".into(), ..leases() }).await.expect("a watch");
    door.create("leases", &lease("other", json!({"app": "db"}))).await.expect("outside");
    door.create("leases", &lease("a", json!({"app": "db"}))).await.expect("outside");
    let label = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    let entered = object(&door.change("a", label("web")).await).revision;
    assert_eq!(facts(&watch.event().await), (EventType::Added, "a".into(), entered));
    let inside = object(&door.change("a", json!({"spec": {"leaseTransitions": 1}})).await).revision;
    assert_eq!(facts(&watch.event().await), (EventType::Modified, "a".into(), inside));
    let left = object(&door.change("a", label("db")).await).revision;
    let event = watch.event().await;
    assert_eq!(facts(&event), (EventType::Deleted, "a".into(), left));
    let object_then = content(&event.object.expect("as it was"));
    assert_eq!(object_then["metadata"]["labels"]["app"], json!("web"), "the object as it last matched");
    door.change("a", json!({"spec": {"leaseTransitions": 2}})).await;
    let back = object(&door.change("a", label("web")).await).revision;
    assert_eq!(facts(&watch.event().await), (EventType::Added, "a".into(), back));

    // The same by field: a pod comes to a node.
    let request = WatchRequest {
        resource: Some(reference("pods", "", "")),
        field_selector: "spec.nodeName=node01".into(),
        ..leases()
    };
    let mut watch = door.watch(request).await.expect("a watch");
    door.create("pods", &pod("p")).await.expect("created");
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "namespace": "default"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node01"},
    });
    let at = v1::ResourceRef { subresource: "binding".into(), ..reference("pods", "default", "p") };
    door.create_at(at, &binding).await.expect("bound");
    let event = watch.event().await;
    assert_eq!((event.r#type(), event.object.expect("a pod").name), (EventType::Added, "p".into()));

    // And by name.
    let one = WatchRequest { resource: Some(reference("leases", "default", "a")), ..leases() };
    let mut watch = door.watch(one).await.expect("a watch");
    door.change("other", json!({"spec": {"leaseTransitions": 3}})).await;
    let revision = object(&door.change("a", json!({"spec": {"leaseTransitions": 3}})).await).revision;
    assert_eq!(facts(&watch.event().await), (EventType::Modified, "a".into(), revision));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_ends_where_it_was_told_to() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    door.create("leases", &lease("a", json!({}))).await.expect("created");
    let start = door.revision().await;
    let mut written = Vec::new();
    for round in 0..20 {
        written.push(object(&door.change("a", json!({"spec": {"leaseTransitions": round}})).await).revision);
    }
    let replay = WatchRequest { start_revision: start, until_revision: written[9], ..leases() };
    let mut watch = door.watch(replay).await.expect("a replay");
    let mut seen = Vec::new();
    while let Some(message) = watch.next().await.expect("a clean end") {
        assert!(revision_of(&message.header) <= written[9]);
        seen.extend(message.events.iter().filter(|e| e.object.is_some()).map(|event| event.revision));
    }
    assert_eq!(seen, written[..10]);

    // An end that is still to come is waited for, also when the last revision holds nothing for this watch.
    let until = door.revision().await + 2;
    let replay = WatchRequest { start_revision: written[18], until_revision: until, ..leases() };
    let mut watch = door.watch(replay).await.expect("a replay");
    assert_eq!(facts(&watch.event().await).2, written[19]);
    door.change("a", json!({"spec": {"leaseTransitions": 20}})).await;
    assert_eq!(facts(&watch.event().await).2, until - 1);
    door.create("pods", &pod("p")).await.expect("created");
    while watch.next().await.expect("a clean end").is_some() {}
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_gone_or_another_is_refused_with_where_it_stands() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    door.create("leases", &lease("a", json!({}))).await.expect("created");
    for round in 0..5 {
        door.change("a", json!({"spec": {"leaseTransitions": round}})).await;
    }
    let now = door.revision().await;
    let other = WatchRequest { incarnation: "another".into(), start_revision: now, ..leases() };
    let error = door.watch(other).await.err().expect("another history");
    assert_eq!((error.reason, error.current_revision), (Reason::Expired, now));

    admin(&server).admin().expire(v1::ExpireRequest { revision: 0 }).await.expect("expired");
    let error = door.watch(WatchRequest { start_revision: 1, ..leases() }).await.err().expect("expired");
    assert_eq!((error.reason, error.code, error.grpc_code()), (Reason::Expired, 410, tonic::Code::OutOfRange));
    assert_eq!((error.oldest_revision, error.current_revision), (now, now));
    // From where history begins, and from now, nothing is lost.
    let mut watch = door.watch(WatchRequest { start_revision: now, ..leases() }).await.expect("from now");
    let next = object(&door.change("a", json!({"spec": {"leaseTransitions": 9}})).await).revision;
    assert_eq!(facts(&watch.event().await), (EventType::Modified, "a".into(), next));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_is_never_silent_and_its_bookmarks_never_run_ahead() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    door.create("leases", &lease("a", json!({}))).await.expect("created");
    // Without a pause something happens that this watch is not about.
    let busy = tokio::spawn({
        let door = door.clone();
        async move {
            loop {
                door.change("a", json!({"spec": {"renewTime": null}})).await;
                door.change("a", json!({"spec": {"leaseTransitions": 1}})).await;
                door.change("a", json!({"spec": {"leaseTransitions": 2}})).await;
            }
        }
    });
    let request = WatchRequest { label_selector: "app=web".into(), progress_interval_ms: 100, ..leases() };
    let mut watch = door.watch(request).await.expect("a watch");
    let mut heard = Instant::now();
    let (mut stands, mut bookmarks) = (0, 0);
    while bookmarks < 20 {
        let message = watch.next().await.expect("no error").expect("no end");
        // Slack for a busy machine; without the interval nothing at all would come.
        assert!(heard.elapsed() < Duration::from_secs(3), "silent for {:?}", heard.elapsed());
        heard = Instant::now();
        for event in message.events {
            assert_eq!(event.r#type(), EventType::Bookmark);
            assert!(event.revision >= stands, "back from {stands} to {}", event.revision);
            stands = event.revision;
            bookmarks += 1;
        }
    }
    let now = door.revision().await;
    busy.abort();
    assert!(stands > 1 && stands <= now);
    let error = door.watch(WatchRequest { progress_interval_ms: 1, ..leases() }).await.err().expect("too often");
    assert!(error.message.contains("progress_interval_ms"), "{}", error.message);

    // A client that wants no bookmarks is told so by empty messages.
    let quiet = WatchRequest { allow_bookmarks: false, progress_interval_ms: 100, ..leases() };
    let mut watch = door.watch(WatchRequest { label_selector: "app=web".into(), ..quiet }).await.expect("a watch");
    for _ in 0..3 {
        let message = watch.next().await.expect("no error").expect("no end");
        assert!(message.events.is_empty() && revision_of(&message.header) > 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_metadata_are_watched_too() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    let watch = |view: v1::View| {
        let resource = Some(reference("pods", "default", ""));
        WatchRequest { resource, view: view.into(), send_initial_events: true, ..leases() }
    };
    let mut table = door.watch(watch(v1::View::Table)).await.expect("rows");
    let mut metadata = door.watch(watch(v1::View::Metadata)).await.expect("metadata");
    let first = table.next().await.expect("no error").expect("no end");
    assert!(!first.columns.is_empty(), "the columns come with the first message");
    door.create("pods", &pod("p")).await.expect("created");
    let event = table.event().await;
    assert_eq!(event.row.expect("a row").cells[..3], ["p", "0/1", "Pending"]);
    let event = metadata.event().await;
    let partial = content(&event.object.expect("metadata"));
    assert_eq!((partial["kind"].clone(), partial.get("spec")), (json!("PartialObjectMetadata"), None));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_says_so_in_its_streams() -> anyhow::Result<()> {
    let mut server = Server::start(&[])?;
    let door = Door::admin(&server);
    let mut watch = door.watch(leases()).await.expect("a watch");
    server.process().stop()?;
    let error = loop {
        match watch.next().await {
            Ok(message) => assert!(message.is_some(), "a live watch has no clean end"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.reason, Reason::ServiceUnavailable, "{}", error.message);
    Ok(())
}
