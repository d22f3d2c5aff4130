//! Watches: how they begin, what they deliver, how they end.

use std::time::Duration;

use listwatch_integration_tests::etcd::{
    Client, WatchStream, delete_op, prefix_end, put_op, revision, told, watch_prefix,
};
use listwatch_proto::etcd::etcdserverpb::watch_create_request::FilterType;
use listwatch_proto::etcd::etcdserverpb::{TxnRequest, WatchCreateRequest, WatchResponse};

use crate::Target;

/// Long enough for an unwanted answer to show.
const SILENCE: Duration = Duration::from_millis(300);

fn strip(target: &Target, answer: &WatchResponse) -> Vec<String> {
    answer.events.iter().map(|event| told(event).replace(&target.prefix, "")).collect()
}

async fn created(stream: &mut WatchStream, request: WatchCreateRequest) -> WatchResponse {
    stream.create(request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_now_begins_after_the_revision_it_is_told() {
    let target = Target::start("now").await;
    let put = target.client.put_at(target.key("a"), "1").await.unwrap();
    let mut stream = target.client.watch_stream();
    let answer = created(&mut stream, watch_prefix(&target.prefix, 0)).await;
    assert_eq!((answer.watch_id, answer.canceled, revision(&answer.header)), (0, false, put));
    let next = target.client.put_at(target.key("a"), "2").await.unwrap();
    let answer = stream.next().await.unwrap();
    assert_eq!(strip(&target, &answer), [format!("PUT a=2@{next}")]);
    assert_eq!((answer.watch_id, revision(&answer.header)), (0, next));
    assert!(answer.events[0].prev_kv.is_none(), "not asked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_the_past_gets_history_and_goes_on() {
    let target = Target::start("past").await;
    let first = target.client.put_at(target.key("a"), "1").await.unwrap();
    target.client.put("elsewhere", "x").await.unwrap();
    target.client.delete(target.key("a"), "").await.unwrap();
    target.client.put(target.key("b"), "2").await.unwrap();
    let mut stream = target.client.watch(watch_prefix(&target.prefix, first)).await.unwrap();
    let mut events: Vec<String> = stream.events(3).await.unwrap().iter().map(told).collect();
    target.client.put(target.key("b"), "3").await.unwrap();
    events.extend(stream.events(1).await.unwrap().iter().map(told));
    let expected = [
        format!("PUT a=1@{first}"),
        format!("DELETE a@{}", first + 2),
        format!("PUT b=2@{}", first + 3),
        format!("PUT b=3@{}", first + 4),
    ];
    assert_eq!(events.iter().map(|event| event.replace(&target.prefix, "")).collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_the_future_is_silent_until_then() {
    let target = Target::start("future").await;
    let now = target.client.put_at(target.key("a"), "0").await.unwrap();
    let mut stream = target.client.watch(watch_prefix(&target.prefix, now + 3)).await.unwrap();
    target.client.put(target.key("a"), "1").await.unwrap();
    stream.ask_progress().await.unwrap();
    target.client.put(target.key("a"), "2").await.unwrap();
    let put = target.client.put_at(target.key("a"), "3").await.unwrap();
    loop {
        let answer = stream.next().await.unwrap();
        if answer.events.is_empty() {
            assert!(revision(&answer.header) >= now + 2, "progress before the start: {answer:?}");
            continue;
        }
        assert_eq!(strip(&target, &answer), [format!("PUT a=3@{put}")]);
        break;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_chosen_skipped_and_refused_as_in_etcd() {
    let target = Target::start("ids").await;
    let mut stream = target.client.watch_stream();
    let with = |watch_id: i64| WatchCreateRequest { watch_id, ..watch_prefix(&target.prefix, 0) };
    assert_eq!(created(&mut stream, with(0)).await.watch_id, 0);
    assert_eq!(created(&mut stream, with(1)).await.watch_id, 1);
    assert_eq!(created(&mut stream, with(77)).await.watch_id, 77);
    assert_eq!(created(&mut stream, with(0)).await.watch_id, 2, "used ids are skipped");
    let refused = created(&mut stream, with(77)).await;
    assert!(refused.canceled);
    assert_eq!(
        (refused.watch_id, &*refused.cancel_reason),
        (-1, "mvcc: duplicate watch ID provided on the WatchStream")
    );
    let put = target.client.put_at(target.key("k"), "v").await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..4 {
        let answer = stream.next().await.unwrap();
        assert_eq!(strip(&target, &answer), [format!("PUT k=v@{put}")]);
        ids.push(answer.watch_id);
    }
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 77], "each answer is about one watch");
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_watches_are_refused_and_leave_the_stream_alive() {
    let target = Target::start("refused").await;
    let mut stream = target.client.watch_stream();
    let range = |key: &str, end: &str| WatchCreateRequest {
        key: key.to_owned().into(),
        range_end: end.to_owned().into(),
        ..WatchCreateRequest::default()
    };
    for (key, end) in [("b", "a"), ("a", "a")] {
        let answer = created(&mut stream, range(key, end)).await;
        assert!(answer.canceled && answer.watch_id == -1);
        assert_eq!(answer.cancel_reason, "mvcc: watcher range is empty");
    }
    let answer = created(&mut stream, WatchCreateRequest { start_revision: -1, ..range("a", "") }).await;
    assert!(answer.canceled && answer.watch_id == -1 && answer.compact_revision == 0, "{answer:?}");
    assert_eq!(answer.cancel_reason, "etcdserver: mvcc: required revision has been compacted");
    assert!(!created(&mut stream, watch_prefix(&target.prefix, 0)).await.canceled);
    target.client.put(target.key("k"), "v").await.unwrap();
    assert_eq!(stream.events(1).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_key_is_the_smallest_one() {
    let target = Target::start("everything").await;
    let everything = WatchCreateRequest { range_end: "\0".into(), ..WatchCreateRequest::default() };
    let mut stream = target.client.watch(everything).await.unwrap();
    target.client.put(target.key("k"), "v").await.unwrap();
    assert_eq!(strip(&target, &stream.next().await.unwrap()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_drop_events_and_empty_answers_are_not_sent() {
    let target = Target::start("filters").await;
    let with =
        |filter: FilterType| WatchCreateRequest { filters: vec![filter.into()], ..watch_prefix(&target.prefix, 0) };
    let mut no_put = target.client.watch(with(FilterType::Noput)).await.unwrap();
    let mut no_delete = target.client.watch(with(FilterType::Nodelete)).await.unwrap();
    let first = target.client.put_at(target.key("a"), "1").await.unwrap();
    target.client.delete(target.key("a"), "").await.unwrap();
    target.client.put(target.key("a"), "2").await.unwrap();
    target.client.delete(target.key("a"), "").await.unwrap();
    let names = |events: &[listwatch_proto::etcd::mvccpb::Event]| -> Vec<String> {
        events.iter().map(|event| told(event).replace(&target.prefix, "")).collect()
    };
    let deletes = no_put.events(2).await.unwrap();
    assert_eq!(names(&deletes), [format!("DELETE a@{}", first + 1), format!("DELETE a@{}", first + 3)]);
    let puts = no_delete.events(2).await.unwrap();
    assert_eq!(names(&puts), [format!("PUT a=1@{first}"), format!("PUT a=2@{}", first + 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn prev_kv_is_the_state_before_each_event_live_and_from_history() {
    let target = Target::start("prev").await;
    let with = |start: i64| WatchCreateRequest { prev_kv: true, ..watch_prefix(&target.prefix, start) };
    let mut live = target.client.watch(with(0)).await.unwrap();
    let first = target.client.put_at(target.key("a"), "1").await.unwrap();
    target.client.put(target.key("a"), "2").await.unwrap();
    target.client.delete(target.key("a"), "").await.unwrap();
    target.client.put(target.key("a"), "3").await.unwrap();
    let mut history = target.client.watch(with(first)).await.unwrap();
    for stream in [&mut live, &mut history] {
        let prevs: Vec<_> = stream
            .events(4)
            .await
            .unwrap()
            .iter()
            .map(|event| event.prev_kv.as_ref().map(|kv| (kv.value.clone(), kv.mod_revision)))
            .collect();
        let expected = [None, Some(("1".into(), first)), Some(("2".into(), first + 1)), None];
        assert_eq!(prevs, expected);
    }
    let mut late = target.client.watch(with(first + 2)).await.unwrap();
    let events = late.events(2).await.unwrap();
    assert_eq!(events[0].prev_kv.as_ref().map(|kv| kv.value.clone()), Some("2".into()));
    let deleted = events[0].kv.as_ref().unwrap();
    assert!(deleted.value.is_empty() && deleted.create_revision == 0 && deleted.version == 0, "{deleted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_arrives_whole_and_in_order() {
    let target = Target::start("whole").await;
    let mut live = target.client.watch(watch_prefix(&target.prefix, 0)).await.unwrap();
    target.client.put(target.key("z"), "").await.unwrap();
    let names: Vec<String> = (0..100).rev().map(|number| format!("{number:03}")).collect();
    let mut success: Vec<_> = names.iter().map(|name| put_op(target.key(name), vec![b'x'; 1000])).collect();
    success.push(delete_op(target.key("z"), ""));
    let answer = target.client.txn(TxnRequest { success, ..TxnRequest::default() }).await.unwrap();
    let at = revision(&answer.header);
    assert_eq!(live.next().await.unwrap().events.len(), 1);
    let mut history = target.client.watch(watch_prefix(&target.prefix, at)).await.unwrap();
    for stream in [&mut live, &mut history] {
        let answer = stream.next().await.unwrap();
        let keys: Vec<_> =
            answer.events.iter().map(|event| event.kv.as_ref().map(|kv| kv.key.clone()).unwrap_or_default()).collect();
        let expected: Vec<bytes::Bytes> =
            names.iter().map(String::as_str).chain(["z"]).map(|name| target.key(name).into()).collect();
        assert_eq!(keys, expected);
        assert_eq!(revision(&answer.header), at);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_revision_comes_in_fragments_only_when_allowed() {
    let target = Target::start("fragment").await;
    // A connection for each: what one leaves unread must not fill the window of the others.
    let watch = |request: WatchCreateRequest| async {
        Client::connect(&target.endpoint).await.unwrap().watch(request).await.unwrap()
    };
    for at in 0..4 {
        target.client.put(target.key(&format!("{at}")), vec![b'x'; 1 << 20]).await.unwrap();
    }
    // One deletion of four keys of 1 MiB each, told with what was there before, is far above the limit.
    let large = WatchCreateRequest { prev_kv: true, ..watch_prefix(&target.prefix, 0) };
    let mut whole = watch(large.clone()).await;
    let mut parts = watch(WatchCreateRequest { fragment: true, ..large }).await;
    let mut small = watch(WatchCreateRequest { fragment: true, ..watch_prefix(&target.prefix, 0) }).await;
    target.client.delete(target.prefix.clone(), prefix_end(&target.prefix)).await.unwrap();
    let mut sizes = Vec::new();
    loop {
        let part = parts.next().await.unwrap();
        sizes.push(part.events.len());
        if !part.fragment {
            break;
        }
    }
    assert!(sizes.len() >= 2 && sizes.iter().sum::<usize>() == 4, "{sizes:?}");
    for stream in [&mut whole, &mut small] {
        let answer = stream.next().await.unwrap();
        assert!(!answer.fragment && answer.events.len() == 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ends_one_watch_and_nothing_follows() {
    let target = Target::start("cancel").await;
    let mut stream = target.client.watch_stream();
    let gone = created(&mut stream, watch_prefix(&target.prefix, 0)).await.watch_id;
    let kept = created(&mut stream, watch_prefix(&target.prefix, 0)).await.watch_id;
    stream.cancel(4711).await.unwrap();
    stream.cancel(gone).await.unwrap();
    let answer = stream.next().await.unwrap();
    assert!(answer.canceled && answer.watch_id == gone && answer.compact_revision == 0, "{answer:?}");
    target.client.put(target.key("k"), "v").await.unwrap();
    assert_eq!(stream.next().await.unwrap().watch_id, kept);
    assert!(stream.silent_for(SILENCE).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_closed_stream_still_delivers() {
    let target = Target::start("half").await;
    let mut stream = target.client.watch(watch_prefix(&target.prefix, 0)).await.unwrap();
    stream.half_close();
    target.client.put(target.key("a"), "1").await.unwrap();
    assert_eq!(stream.events(1).await.unwrap().len(), 1);
    target.client.put(target.key("a"), "2").await.unwrap();
    assert_eq!(stream.events(1).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_watches_on_one_stream_all_get_theirs() {
    let target = Target::start("many").await;
    let mut stream = target.client.watch_stream();
    for number in 0..200 {
        let request =
            WatchCreateRequest { key: target.key(&format!("{number}")).into(), ..WatchCreateRequest::default() };
        assert_eq!(created(&mut stream, request).await.watch_id, number);
    }
    for number in (0..200).rev() {
        target.client.put(target.key(&format!("{number}")), "v").await.unwrap();
    }
    let mut seen = std::collections::HashMap::new();
    while seen.len() < 200 {
        let answer = stream.next().await.unwrap();
        seen.insert(answer.watch_id, strip(&target, &answer));
    }
    for (id, events) in seen {
        assert!(events.len() == 1 && events[0].starts_with(&format!("PUT {id}=v@")), "{id}: {events:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_of_five_hundred_events_from_an_old_revision_also_after_a_restart() {
    let mut target = Target::start("all").await;
    let first = target.client.revision().await.unwrap() + 1;
    for number in 0..500 {
        let put = target.client.put_at(target.key(&format!("{}", number % 50)), format!("{number}")).await.unwrap();
        assert_eq!(put, first + number);
    }
    let check = |client: Client, prefix: String| async move {
        let mut stream = client.watch(watch_prefix(&prefix, first)).await.unwrap();
        let events = stream.events(500).await.unwrap();
        for (number, event) in (0..).zip(&events) {
            let expected = format!("PUT {prefix}{}={number}@{}", number % 50, first + number);
            assert_eq!(told(event), expected);
        }
    };
    check(target.client.clone(), target.prefix.clone()).await;
    let Some(server) = &mut target.server else { return };
    server.kill_and_restart().unwrap();
    check(Client::connect(&server.endpoint()).await.unwrap(), target.prefix.clone()).await;
    server.stop_and_restart().unwrap();
    check(Client::connect(&server.endpoint()).await.unwrap(), target.prefix.clone()).await;
}
