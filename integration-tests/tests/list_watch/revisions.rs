//! What a revision means to reads.

use std::time::{Duration, Instant};

use listwatch_proto::resource::Reason;
use serde_json::json;

use crate::door::{Door, Follow, Read, Speaks, What, config_map, name, over_both_doors, pod, revision, server};

over_both_doors!(
    row_01_a_restarted_server_shows_nothing_older_than_it_acknowledged,
    row_02_who_holds_a_revision_is_never_led_back,
    row_06_what_comes_right_behind_a_list_is_seen_by_a_watch_from_it,
    row_09_a_kind_that_stands_still_keeps_up_with_the_others,
    row_13_a_page_of_a_revision_is_exactly_that_revision,
    row_31_nobody_is_refused_because_of_a_stale_object,
);

async fn row_01_a_restarted_server_shows_nothing_older_than_it_acknowledged(speaks: Speaks) -> anyhow::Result<()> {
    let mut server = server()?;
    for round in 0..3 {
        let door = Door::to(&server, speaks).await;
        let stays = door.create("pods", &pod(&format!("stays-{round}"))).await.expect("created");
        door.create("pods", &pod("goes")).await.expect("created");
        // The same name lives again, and goes again: no state of it may come back.
        door.delete("pods", "goes").await.expect("deleted");
        let label = json!({"metadata": {"labels": {"round": round.to_string()}}});
        let last = door.merge("pods", name(&stays), label).await.expect("changed");
        server.kill_and_restart()?;
        let door = Door::to(&server, speaks).await;
        for any in [true, false] {
            let list = door.list("pods", "", Read { any, ..Read::default() }).await.expect("a list");
            assert!(list.revision >= revision(&last), "round {round}: back to {}", list.revision);
            assert_eq!(list.items.len(), round + 1, "round {round}: {:?}", list.items);
            let pod = list.items.iter().find(|pod| name(pod) == name(&stays)).expect("it was acknowledged");
            assert_eq!(revision(pod), revision(&last));
        }
    }
    Ok(())
}

async fn row_02_who_holds_a_revision_is_never_led_back(speaks: Speaks) -> anyhow::Result<()> {
    let mut server = server()?;
    let door = Door::to(&server, speaks).await;
    let held = revision(&door.create("configmaps", &config_map("a", json!({}))).await.expect("created"));
    server.kill_and_restart()?;
    let door = Door::to(&server, speaks).await;
    let list = door.list("configmaps", "default", Read { at_least: held, ..Read::default() }).await.expect("a list");
    assert!(list.revision >= held);
    assert_eq!(list.items.iter().map(name).collect::<Vec<_>>(), ["a"]);
    // A revision that this history has not reached is no reason to answer with an older one.
    let future = Read { at_least: held + 1_000_000, ..Read::default() };
    let refused = door.list("configmaps", "default", future).await.expect_err("in the future");
    assert_eq!((refused.reason, refused.code), (Reason::Timeout, 504), "{}", refused.message);
    assert_eq!(refused.causes[0].reason, "ResourceVersionTooLarge");
    assert!(refused.message.contains("Too large resource version"), "{}", refused.message);
    Ok(())
}

async fn row_06_what_comes_right_behind_a_list_is_seen_by_a_watch_from_it(speaks: Speaks) -> anyhow::Result<()> {
    // Each time a fresh server, whose cache of the kind begins with this watch.
    for _ in 0..3 {
        let server = server()?;
        let door = Door::to(&server, speaks).await;
        let list = door.list("configmaps", "", Read::default()).await.expect("a list");
        let made = revision(&door.create("configmaps", &config_map("a", json!({}))).await.expect("created"));
        let follow = Follow { above: list.revision, ..Follow::default() };
        let mut watch = door.watch("configmaps", "default", follow).await.expect("a watch");
        assert_eq!(watch.event().await.facts(), (What::Added, "a".to_owned(), made));
    }
    Ok(())
}

async fn row_09_a_kind_that_stands_still_keeps_up_with_the_others(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    door.create("pods", &pod("still")).await.expect("created");
    door.list("pods", "", Read::default()).await.expect("the cache of pods is there");
    door.create("configmaps", &config_map("a", json!({}))).await.expect("created");
    let mut last = 0;
    for round in 0..1000 {
        let patch = json!({"data": {"k": round.to_string()}});
        last = revision(&door.merge("configmaps", "a", patch).await.expect("changed"));
    }
    let asked = Instant::now();
    let list = door.list("pods", "", Read { at_least: last, ..Read::default() }).await.expect("not too large");
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    assert!(list.revision >= last && list.items.len() == 1);
    Ok(())
}

async fn row_13_a_page_of_a_revision_is_exactly_that_revision(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    for name in ["a", "b"] {
        door.create("configmaps", &config_map(name, json!({}))).await.expect("created");
    }
    let then = door.list("configmaps", "default", Read::default()).await.expect("a list").revision;
    door.delete("configmaps", "a").await.expect("deleted");
    door.create("configmaps", &config_map("c", json!({}))).await.expect("created");
    // Over REST also without a word about the match: an old rule that clients have learned.
    let page = match &door {
        Door::Grpc(_) => door
            .list("configmaps", "default", Read { limit: 1, exactly: then, ..Read::default() })
            .await
            .expect("a page"),
        Door::Rest(rest) => rest.page_of("configmaps", then).await.expect("a page"),
    };
    assert_eq!((page.revision, page.items.iter().map(name).collect::<Vec<_>>()), (then, vec!["a"]));
    let rest =
        door.list("configmaps", "default", Read { token: page.token, ..Read::default() }).await.expect("the rest");
    assert_eq!((rest.revision, rest.items.iter().map(name).collect::<Vec<_>>()), (then, vec!["b"]));
    Ok(())
}

async fn row_31_nobody_is_refused_because_of_a_stale_object(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    door.create("configmaps", &config_map("a", json!({}))).await.expect("created");
    let mut watches = Vec::new();
    for _ in 0..20 {
        let mut watch = door.watch("configmaps", "", Follow::default()).await.expect("a watch");
        watches.push(tokio::spawn(async move { while watch.next().await.is_ok_and(|event| event.is_some()) {} }));
    }
    // Alone at its object, who reads and then writes is never refused.
    for round in 0..300 {
        let mut object = door.get("configmaps", "default", "a").await.expect("there");
        object["data"]["k"] = json!(round.to_string());
        let written = door.update("configmaps", &object).await.expect("its version is the latest");
        assert!(revision(&written) > revision(&object));
    }
    watches.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}
