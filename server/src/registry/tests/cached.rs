//! The watch cache: in step with the store, cheap for many, harmless to the slow.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

impl Bed {
    /// Waits until the cache of a kind answers.
    async fn warm(&self, name: &str) {
        let cache = self.registry.shared.caches.of(kind(name), &self.registry.shared.store);
        let whole = async {
            while cache.list(&selection(name), 1, self.registry.revision()).is_none() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, whole).await.expect("the cache gets whole");
    }
}

fn selection(name: &str) -> super::super::selection::Selection {
    super::super::selection::Selection::read(&Target::collection(kind(name), ""), "", "").expect("no selectors")
}

fn on_node(name: &str, node: &str) -> Value {
    let mut pod = pod_json(name, json!({}));
    pod["spec"]["nodeName"] = json!(node);
    pod
}

#[tokio::test]
async fn a_list_from_the_cache_shows_the_write_just_answered() {
    let bed = bed();
    bed.make_pod("a", json!({"x": "1"})).await;
    bed.warm("pod").await;
    for i in 0..50 {
        let written =
            bed.merge(&pod("a"), json!({"metadata": {"labels": {"x": i.to_string()}}})).await.expect("patched");
        let options = ListOptions { label_selector: format!("x={i}"), ..ListOptions::default() };
        let page = bed.list(options).await.expect("a list");
        assert_eq!(page.items.len(), 1, "round {i}");
        assert!(page.revision >= written.revision());
    }
}

#[tokio::test]
async fn a_page_of_the_cache_goes_on_in_the_store() {
    let bed = bed();
    for i in 0..9 {
        bed.make_pod(&format!("p{i}"), json!({"even": (i % 2 == 0).to_string()})).await;
    }
    bed.warm("pod").await;
    let mut options = ListOptions { limit: 2, label_selector: "even=true".into(), ..ListOptions::default() };
    let mut found = Vec::new();
    loop {
        let page = bed.list(options.clone()).await.expect("a page");
        found.extend(names(&page.items).into_iter().map(str::to_owned));
        if page.continue_token.is_empty() {
            break;
        }
        options.continue_token = page.continue_token;
        let gone = pod(&format!("p{}", found.len()));
        let _ = bed.registry.delete(&me(), &gone, &DeleteOptions::default()).await;
    }
    assert_eq!(found, ["p0", "p2", "p4", "p6", "p8"]);
}

#[tokio::test]
async fn a_kubelet_hears_of_its_own_pods_only() {
    let bed = bed();
    bed.make_pod("before", json!({})).await;
    bed.warm("pod").await;
    let mut watches = Vec::new();
    for node in ["n1", "n2"] {
        let options = WatchOptions { field_selector: format!("spec.nodeName={node}"), ..WatchOptions::default() };
        let target = Target::collection(kind("pod"), "");
        watches.push(bed.registry.watch(&me(), &target, &options).await.expect("a watch"));
    }
    assert_eq!(bed.registry.watchers().len(), 2);
    bed.create(&pods(), &on_node("a", "n1")).await.expect("a pod");
    bed.create(&pods(), &on_node("b", "n2")).await.expect("a pod");
    let binding = json!({"metadata": {"name": "before"}, "target": {"name": "n1"}});
    bed.create(&pod("before").with_subresource("binding"), &binding).await.expect("bound");
    let seen: Vec<_> = [events(&mut watches[0]).await, events(&mut watches[0]).await].concat();
    assert_eq!(
        seen.iter().map(|e| (e.0, e.1.as_str())).collect::<Vec<_>>(),
        [(EventType::Added, "a"), (EventType::Added, "before")]
    );
    assert_eq!(events(&mut watches[1]).await[0].1, "b");
    let delivered: Vec<u64> = bed.registry.watchers().iter().map(|w| w.delivered).collect();
    assert_eq!(delivered, [2, 1]);
    drop(watches);
    assert!(bed.registry.watchers().is_empty());
}

#[tokio::test]
async fn a_reader_too_slow_for_the_cache_loses_nothing() {
    let bed = bed();
    bed.make_pod("a", json!({})).await;
    bed.warm("pod").await;
    let mut watch = bed.watch(WatchOptions::default()).await.expect("a watch");
    const WRITES: usize = 1_500;
    let mut revisions = Vec::new();
    for i in 0..WRITES {
        let patched =
            bed.merge(&pod("a"), json!({"metadata": {"labels": {"i": i.to_string()}}})).await.expect("patched");
        revisions.push(patched.revision());
    }
    bed.warm("pod").await;
    assert!(bed.registry.watchers().iter().all(|w| !w.in_step), "it was let go");
    let mut seen = Vec::new();
    while seen.len() < WRITES {
        seen.extend(events(&mut watch).await.into_iter().map(|e| e.2));
    }
    assert_eq!(seen, revisions);
    bed.merge(&pod("a"), json!({"metadata": {"labels": {"i": "last"}}})).await.expect("patched");
    assert_eq!(events(&mut watch).await.len(), 1);
    bed.make_pod("b", json!({})).await;
    assert_eq!(events(&mut watch).await[0].1, "b");
    assert_eq!(bed.registry.watchers().iter().filter(|w| w.in_step).count(), 1, "it is in step again");
}

#[tokio::test]
async fn a_cache_that_fell_behind_history_is_made_anew() {
    let bed = bed();
    bed.make_pod("a", json!({})).await;
    bed.warm("pod").await;
    let mut watch = bed.watch(WatchOptions::default()).await.expect("a watch");
    let made = bed.make_pod("b", json!({})).await;
    for name in ["c", "d", "e", "f"] {
        bed.make_pod(name, json!({})).await;
    }
    bed.store.expire(made.revision() + 2);
    bed.warm("pod").await;
    let page = bed.list(ListOptions { label_selector: "!x".into(), ..ListOptions::default() }).await.expect("a list");
    assert_eq!(names(&page.items), ["a", "b", "c", "d", "e", "f"]);
    // Whether the watcher had the events in its queue or not, it never misses one in silence.
    let mut seen = Vec::new();
    loop {
        match tokio::time::timeout(LIMIT, watch.next()).await.expect("in time") {
            Ok(batch) => {
                seen.extend(
                    batch.expect("a batch").events.iter().filter_map(|e| Some(e.object.as_ref()?.name().to_owned())),
                );
                if seen.last().map(String::as_str) == Some("f") {
                    assert_eq!(seen, ["b", "c", "d", "e", "f"]);
                    return;
                }
            }
            Err(status) => {
                assert_eq!(status.reason, Reason::Expired);
                return;
            }
        }
    }
}

/// Applies random writes and checks after each round that every watcher's fold of its events is what a list shows.
#[tokio::test]
async fn the_fold_of_every_watch_is_the_list() {
    const SEED: u64 = 7;
    let mut random = StdRng::seed_from_u64(SEED);
    let bed = bed();
    bed.make_pod("seed", json!({"color": "red"})).await;
    bed.warm("pod").await;
    let selectors = ["", "color=red", "color in (red,blue)", "color!=red", "!color"];
    let mut folds: Vec<BTreeMap<String, i64>> = vec![BTreeMap::new(); selectors.len()];
    let mut watches = Vec::new();
    for selector in selectors {
        let options = WatchOptions {
            label_selector: selector.into(),
            send_initial_events: true,
            allow_bookmarks: true,
            progress_interval: Some(Duration::from_millis(10)),
            ..WatchOptions::default()
        };
        watches.push(bed.watch(options).await.expect("a watch"));
    }
    for round in 0..30 {
        for _ in 0..20 {
            let name = format!("p{}", random.random_range(0..8));
            let color = ["red", "blue", "green"][random.random_range(0..3)];
            match random.random_range(0..4) {
                0 => drop(bed.registry.delete(&me(), &pod(&name), &DeleteOptions::default()).await),
                1 => drop(bed.merge(&pod(&name), json!({"metadata": {"labels": {"color": null}}})).await),
                2 => drop(bed.merge(&pod(&name), json!({"metadata": {"labels": {"color": color}}})).await),
                _ => drop(bed.create(&pods(), &pod_json(&name, json!({"color": color}))).await),
            }
        }
        let revision = bed.registry.revision();
        for ((watch, fold), selector) in watches.iter_mut().zip(&mut folds).zip(selectors) {
            fold_until(watch, fold, revision).await;
            let options = ListOptions { label_selector: selector.into(), ..ListOptions::default() };
            let page = bed.list(options).await.expect("a list");
            let listed: BTreeMap<String, i64> =
                page.items.iter().map(|o| (o.name().to_owned(), o.revision())).collect();
            assert_eq!(*fold, listed, "seed {SEED}, round {round}, selector {selector:?}");
        }
    }
}

pub(super) async fn fold_until(watch: &mut RegistryWatch, fold: &mut BTreeMap<String, i64>, revision: i64) {
    let mut last = 0;
    loop {
        let batch = next(watch).await.expect("a batch");
        for event in &batch.events {
            let Some(object) = &event.object else { continue };
            let name = object.name().to_owned();
            let before = fold.get(&name).copied();
            match event.event_type {
                EventType::Added => assert!(fold.insert(name, object.revision()).is_none()),
                EventType::Modified => assert!(fold.insert(name, object.revision()).is_some()),
                EventType::Deleted => assert!(fold.remove(&name).is_some()),
                EventType::Bookmark => unreachable!("a bookmark has no object"),
            }
            assert!(before.is_none_or(|before| before < event.revision), "each event once and in order");
        }
        assert!(batch.revision == 0 || batch.revision >= last);
        last = last.max(batch.revision);
        if last >= revision {
            return;
        }
    }
}
