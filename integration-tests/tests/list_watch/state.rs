//! The initial state of a watch.

use std::time::{Duration, Instant};

use listwatch_integration_tests::{Server, etcd, eventually};
use listwatch_proto::etcd::etcdserverpb::TxnRequest;
use listwatch_proto::resource::KINDS;
use serde_json::json;

use crate::door::{Door, Follow, LIMIT, Read, Speaks, What, config_map, over_both_doors, revision, server};

over_both_doors!(
    row_14_the_end_of_the_state_comes_at_once,
    row_15_a_huge_state_comes_whole_while_much_is_written,
    row_16_every_resource_tells_the_end_of_its_state,
);

async fn row_14_the_end_of_the_state_comes_at_once(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    let quick = async |objects: usize| {
        let asked = Instant::now();
        let follow = Follow { state: true, ..Follow::default() };
        let mut watch = door.watch("configmaps", "default", follow).await.expect("a watch");
        assert_eq!(watch.state().await.expect("the state").0.len(), objects);
        // Again until it was quick, for the machine may be busy; one that waits for a timer never is.
        let took = asked.elapsed();
        if took < Duration::from_millis(200) { Ok(()) } else { Err(took) }
    };
    eventually(LIMIT, "the end of no state within 200 ms", async || quick(0).await).await;
    for n in 0..10 {
        door.create("configmaps", &config_map(&format!("c{n}"), json!({}))).await.expect("created");
    }
    eventually(LIMIT, "the end of ten objects within 200 ms", async || quick(10).await).await;
    Ok(())
}

/// Objects of the huge state, and how many are put at a time.
const MANY: usize = 20_000;
const BATCH: usize = 100;
/// Writes each second beside it.
const WRITES_PER_SECOND: u32 = 500;

/// Puts objects in by the store's own door: the fastest way to many.
async fn fill(server: &Server) {
    let store = etcd::Client::connect(&server.endpoint()).await.expect("the store");
    for batch in 0..MANY / BATCH {
        let put = |n: usize| {
            let name = format!("m{:05}", batch * BATCH + n);
            let value = format!(
                "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"default\",\
                 \"uid\":\"{name}\"}},\"data\":{{\"k\":\"v\"}}}}"
            );
            etcd::put_op(format!("/registry/configmaps/default/{name}"), value)
        };
        let request = TxnRequest { success: (0..BATCH).map(put).collect(), ..Default::default() };
        store.txn(request).await.expect("put");
    }
}

async fn row_15_a_huge_state_comes_whole_while_much_is_written(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    door.create("configmaps", &config_map("busy", json!({}))).await.expect("created");
    fill(&server).await;
    let writer = tokio::spawn({
        let door = door.clone();
        async move {
            let mut tick = tokio::time::interval(Duration::from_secs(1) / WRITES_PER_SECOND);
            for round in 0.. {
                tick.tick().await;
                door.merge("configmaps", "busy", json!({"data": {"k": round.to_string()}})).await.expect("written");
            }
        }
    });
    let follow = Follow { state: true, ..Follow::default() };
    let mut watch = door.watch("configmaps", "", follow).await.expect("a watch");
    let (state, mut stands) = watch.state().await.expect("it is not cut off");
    let names: std::collections::BTreeSet<_> = state.iter().map(|event| event.name().to_owned()).collect();
    assert!(names.len() > MANY && names.len() == state.len(), "{} of {}", names.len(), state.len());
    assert!(state.iter().all(|event| event.what == What::Added && event.revision <= stands));
    // And it stays: what is written afterwards comes, each write once and in order.
    for _ in 0..1000 {
        let event = watch.event().await;
        assert_eq!((event.what, event.name()), (What::Modified, "busy"));
        assert!(event.revision > stands, "{} behind {stands}", event.revision);
        stands = event.revision;
    }
    writer.abort();
    Ok(())
}

async fn row_16_every_resource_tells_the_end_of_its_state(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    door.create("configmaps", &config_map("a", json!({}))).await.expect("created");
    let now = door.list("configmaps", "", Read::default()).await.expect("a list").revision;
    let mut asked = 0;
    for kind in KINDS.iter().filter(|kind| kind.verbs().contains(&"watch")) {
        let follow = Follow { state: true, ..Follow::default() };
        let mut watch = door.watch_kind(kind, "", follow).await.unwrap_or_else(|e| panic!("{}: {e}", kind.plural));
        let (state, end) = watch.state().await.unwrap_or_else(|e| panic!("{}: {e}", kind.plural));
        assert!(end >= now, "{}: the end of the state tells its revision, not {end}", kind.plural);
        assert!(
            state.iter().all(|event| event.what == What::Added && revision(&event.object) <= end),
            "{}",
            kind.plural
        );
        asked += 1;
    }
    assert!(asked > 30, "{asked} resources");
    Ok(())
}
