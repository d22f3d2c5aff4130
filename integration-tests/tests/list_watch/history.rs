//! When history ends, and what comes after.

use std::collections::BTreeMap;

use listwatch_integration_tests::Server;
use listwatch_proto::resource::{Reason, Status};
use listwatch_proto::v1::ExpireRequest;
use listwatch_proto::v1::admin_client::AdminClient;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::door::{
    Door, Follow, Listed, Read, Speaks, Watch, What, config_map, name, over_both_doors, pod, revision, server,
};

over_both_doors!(
    row_05_a_watch_from_before_history_is_told_so_in_its_stream,
    row_07_no_watch_of_a_storm_loses_anything_over_a_restart,
    row_08_a_list_of_the_cache_is_the_list_of_the_store,
    row_10_a_watch_that_stands_still_is_kept_ahead_of_the_end_of_history,
    row_22_a_list_after_an_end_of_history_can_be_watched,
);

/// Ends history at where the store stands.
pub(crate) async fn expire(server: &Server) {
    let address = format!("http://{}", server.address("insecure"));
    let mut admin = AdminClient::connect(address).await.expect("the server listens");
    admin.expire(ExpireRequest { revision: 0 }).await.expect("expired");
}

/// A watch from before history; how it is refused.
async fn refused(door: &Door, above: i64) -> Status {
    let watch = door.watch("configmaps", "", Follow { above, ..Follow::default() }).await;
    match (door, watch) {
        // Over REST the stream is there first: an answer 410 would be another thing to learn for every client.
        (Door::Rest(_), watch) => {
            let mut watch = watch.expect("an answer of 200");
            let error = watch.next().await.expect_err("an event of type ERROR comes first");
            assert!(watch.next().await.expect("nothing else").is_none(), "and is the last");
            error
        }
        (Door::Grpc(_), watch) => watch.err().expect("refused when it is opened"),
    }
}

async fn row_05_a_watch_from_before_history_is_told_so_in_its_stream(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    let made = revision(&door.create("configmaps", &config_map("a", json!({}))).await.expect("created"));
    for round in 0..5 {
        door.merge("configmaps", "a", json!({"data": {"k": round.to_string()}})).await.expect("changed");
    }
    expire(&server).await;
    for above in [made, 1] {
        let error = refused(&door, above).await;
        assert_eq!((error.reason, error.code), (Reason::Expired, 410), "{}", error.message);
        assert!(error.message.starts_with(&format!("too old resource version: {above} (")), "{}", error.message);
    }
    let exactly = Read { exactly: made, ..Read::default() };
    let error = door.list("configmaps", "", exactly).await.expect_err("the snapshot is gone");
    assert_eq!((error.reason, error.code), (Reason::Expired, 410), "{}", error.message);
    Ok(())
}

/// What events add up to: the revision of every object.
type Fold = BTreeMap<String, i64>;

fn fold_of(list: &Listed) -> Fold {
    list.items.iter().map(|item| (name(item).to_owned(), revision(item))).collect()
}

/// Takes in events until the stream ends or has come to `end`; where it stands.
async fn follow(watch: &mut Watch, fold: &mut Fold, mut stands: i64, end: i64) -> i64 {
    while stands < end {
        let Ok(Some(event)) = watch.next().await else { return stands };
        assert!(event.revision >= stands, "back from {stands} to {}", event.revision);
        match event.what {
            What::Bookmark => {}
            What::Deleted => assert!(fold.remove(event.name()).is_some(), "{} was not there", event.name()),
            What::Added => assert_eq!(fold.insert(event.name().to_owned(), event.revision), None, "{}", event.name()),
            What::Modified => {
                assert!(fold.insert(event.name().to_owned(), event.revision).is_some(), "{}", event.name());
            }
        }
        stands = event.revision;
    }
    stands
}

/// Makes, changes and removes objects until told to stop.
async fn disturb(door: Door, stop: CancellationToken) {
    for round in 0usize.. {
        if stop.is_cancelled() {
            return;
        }
        let name = format!("c{}", round % 7);
        // Whatever the state is, one of these changes it; while the server is away none does.
        if door.create("configmaps", &config_map(&name, json!({}))).await.is_err()
            && (round % 3 == 0
                || door.merge("configmaps", &name, json!({"data": {"k": round.to_string()}})).await.is_err())
        {
            drop(door.delete("configmaps", &name).await);
        }
    }
}

async fn row_07_no_watch_of_a_storm_loses_anything_over_a_restart(speaks: Speaks) -> anyhow::Result<()> {
    const STORM: usize = 40;
    // The client over gRPC here has one connection, which all watches share.
    let streams = ["--http2-max-streams-per-connection", "1000"];
    let mut server = Server::start(&[&["--insecure-resource-port", "0"], &streams[..]].concat())?;
    let mut followers: Vec<(Fold, i64)> = Vec::new();
    for life in 0..3 {
        let door = Door::to(&server, speaks).await;
        let stop = CancellationToken::new();
        let writer = tokio::spawn(disturb(door.clone(), stop.clone()));
        // New ones join at the very beginning, while the caches are being made; the old ones go on where they were.
        while followers.len() < STORM * (life + 1) {
            let list = door.list("configmaps", "default", Read::default()).await.expect("a list");
            followers.push((fold_of(&list), list.revision));
        }
        let mut tasks = Vec::new();
        let mut opened = Vec::new();
        for (fold, stands) in followers.drain(..) {
            let watch = door.watch("configmaps", "default", Follow { above: stands, ..Follow::default() }).await;
            opened.push((watch.expect("history is there"), fold, stands));
        }
        stop.cancel();
        writer.await?;
        let last = door.create("configmaps", &config_map(&format!("last{life}"), json!({}))).await.expect("created");
        let end = revision(&last);
        for (mut watch, mut fold, stands) in opened {
            tasks.push(tokio::spawn(async move {
                let stands = follow(&mut watch, &mut fold, stands, end).await;
                (fold, stands)
            }));
        }
        let expected = fold_of(&door.list("configmaps", "default", Read::default()).await.expect("a list"));
        for (index, task) in tasks.into_iter().enumerate() {
            let (fold, stands) = task.await?;
            assert_eq!((stands, &fold), (end, &expected), "life {life}, follower {index}");
            followers.push((fold, stands));
        }
        server.kill_and_restart()?;
    }
    Ok(())
}

async fn row_08_a_list_of_the_cache_is_the_list_of_the_store(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    let stop = CancellationToken::new();
    let writer = tokio::spawn(disturb(door.clone(), stop.clone()));
    for audit in 0..20 {
        let cached = door.list("configmaps", "", Read { any: true, ..Read::default() }).await.expect("a list");
        let exactly = Read { exactly: cached.revision, ..Read::default() };
        let stored = door.list("configmaps", "", exactly).await.expect("it is recent");
        assert_eq!((cached.revision, &cached.items), (stored.revision, &stored.items), "audit {audit}");
        if audit == 10 {
            // What follows history is made to begin anew.
            expire(&server).await;
        }
    }
    stop.cancel();
    writer.await?;
    Ok(())
}

async fn row_10_a_watch_that_stands_still_is_kept_ahead_of_the_end_of_history(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    let start = revision(&door.create("configmaps", &config_map("a", json!({}))).await.expect("created"));
    let follow = Follow { above: start, impatient: true, ..Follow::default() };
    let mut watch = door.watch("configmaps", "", follow).await.expect("a watch");
    // All that happens happens to others, and then history ends behind it.
    door.create("pods", &pod("busy")).await.expect("created");
    for round in 0..50 {
        let patch = json!({"metadata": {"labels": {"round": round.to_string()}}});
        door.merge("pods", "busy", patch).await.expect("changed");
    }
    expire(&server).await;
    let floor = door.revision().await;
    let mut stands = 0;
    while stands < floor {
        let event = watch.next().await.expect("no error").expect("a bookmark before the end");
        assert_eq!(event.what, What::Bookmark);
        stands = event.revision;
    }
    drop(watch);
    let mut watch = door.watch("configmaps", "", Follow { above: stands, ..Follow::default() }).await.expect("resumed");
    let next = revision(&door.create("configmaps", &config_map("b", json!({}))).await.expect("created"));
    assert_eq!(watch.event().await.facts(), (What::Added, "b".to_owned(), next));
    Ok(())
}

async fn row_22_a_list_after_an_end_of_history_can_be_watched(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    let old = revision(&door.create("configmaps", &config_map("a", json!({}))).await.expect("created"));
    for round in 0..3 {
        // Others write last, so that the newest object of the kind is older than history.
        door.merge("configmaps", "a", json!({"data": {"k": format!("before-{round}")}})).await.expect("changed");
        for n in 0..2 {
            door.create("pods", &pod(&format!("p{round}-{n}"))).await.expect("created");
        }
        expire(&server).await;
        let list = door.list("configmaps", "", Read::default()).await.expect("a list");
        assert_eq!(refused(&door, old).await.reason, Reason::Expired);
        assert!(list.revision > old, "the list tells the revision of the store, not that of its newest object");
        let follow = Follow { above: list.revision, ..Follow::default() };
        let mut watch = door.watch("configmaps", "", follow).await.expect("the list's revision is watchable");
        let label: Value = json!({"data": {"k": round.to_string()}});
        let changed = revision(&door.merge("configmaps", "a", label).await.expect("changed"));
        assert_eq!(watch.event().await.facts(), (What::Modified, "a".to_owned(), changed));
    }
    Ok(())
}
