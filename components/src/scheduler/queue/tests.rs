//! The queue by hand-moved time: order, cures, and what happens while a pod is tried.

use super::*;
use crate::scheduler::framework::NO_NODES_AT_ALL;
use crate::scheduler::pod::Waiting;
use crate::scheduler::{Amounts, Node};
use listwatch_proto::resource::Taint;

fn pod(name: &str, priority: i32) -> Arc<Pod> {
    let waiting = Some(Box::new(Waiting::default()));
    Arc::new(Pod { key: ObjectKey::new("default", name), uid: name.to_owned(), priority, waiting, ..Pod::default() })
}

fn with(pod: &Arc<Pod>, change: impl FnOnce(&mut Waiting)) -> Arc<Pod> {
    let mut copy = Pod::clone(pod);
    change(copy.waiting.as_mut().expect("waits"));
    Arc::new(copy)
}

fn node(tainted: bool) -> Arc<Node> {
    let taints = if tainted { vec![Taint::new("k", "NoSchedule")] } else { Vec::new() };
    Arc::new(Node { taints, allocatable: Amounts::sample(0, 1), ..Node::default() })
}

fn untainted() -> ClusterEvent {
    ClusterEvent::NodeUpdated { old: node(true), new: node(false) }
}

struct Bench {
    queue: Queue,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::now();
        Bench { queue: Queue::new(Arc::new(Profile::standard()), Backoff::default(), now), now }
    }
    fn set(&mut self, pod: Arc<Pod>) {
        self.queue.set(pod, self.now);
    }
    fn pop(&mut self) -> Option<Queued> {
        self.queue.pop(self.now)
    }
    fn name(&mut self) -> Option<String> {
        let queued = self.pop()?;
        self.queue.done(&queued);
        Some(queued.pod.key.name.clone())
    }
    fn refuse(&mut self, queued: Queued, by: &'static str) {
        self.queue.refused(queued, BTreeSet::from([by]), self.now);
    }
    fn happened(&mut self, event: ClusterEvent) {
        self.queue.happened(event, self.now);
    }
    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

#[test]
fn higher_priority_goes_first_then_who_came_first() {
    let mut bench = Bench::new();
    for (name, priority) in [("late-name", 0), ("a", 0), ("high", 10)] {
        bench.set(pod(name, priority));
        bench.pass(1);
    }
    let order: Vec<_> = std::iter::from_fn(|| bench.name()).collect();
    assert_eq!(order, ["high", "late-name", "a"]);
}

#[test]
fn only_an_event_that_could_cure_brings_a_refused_pod_back() {
    let mut bench = Bench::new();
    bench.set(pod("p", 0));
    let queued = bench.pop().expect("active");
    bench.refuse(queued, "TaintToleration");
    assert!(bench.pop().is_none());
    bench.happened(ClusterEvent::PodLeft { pod: pod("other", 0), node: None });
    bench.happened(ClusterEvent::NodeAdded(node(true)));
    assert!(bench.pop().is_none());
    // At once, although its back-off is not over, for nothing else waits.
    bench.happened(untainted());
    let queued = bench.pop().expect("cured");
    assert_eq!(queued.attempts, 2);
    bench.refuse(queued, "TaintToleration");
    // The active ones come before those that only wait for their back-off.
    bench.happened(untainted());
    bench.set(pod("fresh", 0));
    assert_eq!((bench.name().as_deref(), bench.name().as_deref()), (Some("fresh"), Some("p")));
}

#[test]
fn an_event_during_the_try_is_not_lost() {
    let mut bench = Bench::new();
    bench.set(pod("p", 0));
    let queued = bench.pop().expect("active");
    bench.happened(untainted());
    bench.refuse(queued, "TaintToleration");
    let queued = bench.pop().expect("the event came during the try");
    // Events from before the try are not replayed.
    bench.refuse(queued, "TaintToleration");
    assert!(bench.pop().is_none());
    // Nor are events that cure nothing.
    bench.happened(untainted());
    let queued = bench.pop().expect("cured");
    bench.happened(ClusterEvent::NodeAdded(node(true)));
    bench.refuse(queued, "TaintToleration");
    assert!(bench.pop().is_none());
}

#[test]
fn a_change_of_the_pod_during_the_try_is_not_lost() {
    let mut bench = Bench::new();
    let first = pod("p", 0);
    bench.set(first.clone());
    let queued = bench.pop().expect("active");
    bench.set(with(&first, |w| {
        w.tolerations.push(listwatch_proto::resource::Toleration { operator: "Exists".into(), ..Default::default() });
    }));
    bench.refuse(queued, "TaintToleration");
    let queued = bench.pop().expect("its own change cures");
    assert_eq!(queued.pod.asks().tolerations.len(), 1);
}

#[test]
fn an_error_waits_its_time_and_a_parked_pod_five_minutes() {
    let mut bench = Bench::new();
    bench.set(pod("p", 0));
    let queued = bench.pop().expect("active");
    bench.queue.failed(queued, bench.now);
    assert!(bench.pop().is_none());
    assert_eq!(bench.queue.wake_at(), Some(bench.now + Duration::from_secs(1)));
    bench.pass(1);
    let queued = bench.pop().expect("its time has come");
    bench.queue.failed(queued, bench.now);
    assert_eq!(bench.queue.wake_at(), Some(bench.now + Duration::from_secs(2)));
    bench.pass(2);
    let queued = bench.pop().expect("its time has come");
    bench.refuse(queued, "NodeResourcesFit");
    assert_eq!(bench.queue.wake_at(), Some(bench.now + PARKED_MAX));
    bench.pass(300);
    assert_eq!(bench.name().as_deref(), Some("p"));
    assert!(bench.queue.is_empty() && bench.queue.wake_at().is_none());
}

#[test]
fn a_gated_pod_waits_for_its_gates_alone() {
    let mut bench = Bench::new();
    let open = pod("p", 0);
    bench.set(with(&open, |w| w.gated = true));
    bench.happened(untainted());
    bench.pass(1000);
    assert!(bench.pop().is_none());
    bench.set(open);
    assert_eq!(bench.name().as_deref(), Some("p"));
}

#[test]
fn a_pod_that_is_gone_is_not_tried() {
    let mut bench = Bench::new();
    bench.set(pod("p", 0));
    bench.set(pod("q", 0));
    bench.queue.remove(&ObjectKey::new("default", "p"));
    let queued = bench.pop().expect("q");
    assert_eq!(queued.pod.key.name, "q");
    // Deleted while it is tried: the refusal finds nobody.
    bench.queue.remove(&queued.pod.key);
    bench.refuse(queued, "TaintToleration");
    assert!(bench.queue.is_empty());
}

#[test]
fn no_nodes_at_all_waits_for_a_node() {
    let mut bench = Bench::new();
    bench.set(pod("p", 0));
    let queued = bench.pop().expect("active");
    bench.refuse(queued, NO_NODES_AT_ALL);
    bench.happened(ClusterEvent::PodPlaced(pod("other", 0)));
    assert!(bench.pop().is_none());
    bench.happened(ClusterEvent::NodeAdded(node(false)));
    assert!(bench.pop().is_some());
}

#[test]
fn a_refuser_that_is_not_known_is_cured_by_anything() {
    let mut bench = Bench::new();
    bench.set(pod("p", 0));
    let queued = bench.pop().expect("active");
    bench.refuse(queued, "Extender");
    assert!(bench.pop().is_none());
    bench.happened(ClusterEvent::PodPlaced(pod("other", 0)));
    assert!(bench.pop().is_some());
}

#[test]
fn early_tries_go_by_priority_within_a_second_and_by_time_beyond() {
    let mut bench = Bench::new();
    for (name, priority) in [("low", 0), ("high", 10), ("later", 100)] {
        bench.set(pod(name, priority));
    }
    let mut tried = Vec::new();
    while let Some(queued) = bench.pop() {
        tried.push(queued);
    }
    for queued in tried {
        bench.refuse(queued, "TaintToleration");
    }
    bench.happened(untainted());
    let later = bench.pop().expect("the highest first");
    assert_eq!(later.pod.key.name, "later");
    bench.refuse(later, "TaintToleration");
    bench.happened(untainted());
    let order: Vec<_> = std::iter::from_fn(|| bench.name()).collect();
    assert_eq!(order, ["high", "low", "later"], "the back-off of the last ends a second after that of the others");
}

#[test]
fn refusals_and_errors_are_counted_apart() {
    let mut bench = Bench::new();
    bench.set(pod("p", 0));
    for _ in 0..3 {
        let queued = bench.pop().expect("active");
        bench.refuse(queued, "TaintToleration");
        bench.pass(60);
        bench.happened(untainted());
    }
    // Three refusals do not lengthen the wait after the first error.
    let queued = bench.pop().expect("active");
    bench.queue.failed(queued, bench.now);
    assert_eq!(bench.queue.wake_at(), Some(bench.now + Duration::from_secs(1)));
    bench.happened(untainted());
    assert!(bench.pop().is_none(), "an event does not shorten the wait after an error, nor does having nothing to do");
    bench.pass(1);
    let queued = bench.pop().expect("its time has come");
    assert_eq!((queued.attempts, queued.refusals, queued.errors), (5, 3, 1));
    bench.refuse(queued, "TaintToleration");
    bench.happened(untainted());
    // And the error does not lengthen that after the fourth refusal: eight seconds.
    assert_eq!(bench.queue.wake_at(), Some(bench.now + Duration::from_secs(8)));
}

#[test]
fn ten_thousand_waiting_pods_are_not_shown_what_cannot_help_them() {
    let mut bench = Bench::new();
    for at in 0..10_000 {
        bench.set(pod(&format!("p{at}"), 0));
    }
    while let Some(queued) = bench.pop() {
        bench.refuse(queued, "TaintToleration");
    }
    let relabelled = |value: &str| {
        let labels = [("k".to_owned(), value.to_owned())].into();
        Arc::new(Node { labels, ..Node::clone(&node(true)) })
    };
    for at in 0..1000 {
        bench.happened(ClusterEvent::PodLeft { pod: pod("other", 0), node: None });
        bench.happened(ClusterEvent::PodPlaced(pod("other", 0)));
        bench.happened(ClusterEvent::NodeUpdated { old: relabelled("old"), new: relabelled(&at.to_string()) });
    }
    assert_eq!(bench.queue.examined(), 0);
    assert!(bench.pop().is_none());
    // What concerns them is shown to each once.
    bench.happened(ClusterEvent::NodeUpdated { old: node(false), new: node(true) });
    assert_eq!(bench.queue.examined(), 10_000);
    assert!(bench.pop().is_none());
}
