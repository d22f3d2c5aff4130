//! The numbers of this door for Prometheus, under the names of kube-apiserver 1.36 where dashboards know them.
//!
//! Invariant: labels take their values from the kinds, their parts and the verbs that are served, never from what a client
//! wrote, and the series of a kind go when it is no longer served: no client can make more series than there are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::any;
use http::{HeaderValue, Method, header};
use parking_lot::{Mutex, RwLock};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry as Metrics;

use super::form::answer;
use crate::registry::{Kinds, Target};
use crate::storage::Engine;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Seconds, as kube-apiserver has them.
const DURATIONS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
/// Bytes of an answer.
const SIZES: &[f64] = &[1_000.0, 10_000.0, 100_000.0, 1_000_000.0, 10_000_000.0, 100_000_000.0, 1_000_000_000.0];

/// What a request was about.
#[derive(Clone, Debug, Default)]
pub(super) struct Subject {
    labels: Labels,
    /// Its kind may go.
    is_custom: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    verb: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: String,
    scope: &'static str,
    component: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Done {
    verb: &'static str,
    dry_run: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: String,
    scope: &'static str,
    component: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Served {
    group: &'static str,
    version: &'static str,
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Flight {
    request_kind: &'static str,
}

/// The counters. Cheap to clone; all clones count together.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    requests: Family<Done, Counter>,
    durations: Family<Labels, Histogram>,
    sizes: Family<Labels, Histogram>,
    inflight: Family<Flight, Gauge>,
    long_running: Family<Labels, Gauge>,
    watch_events: Family<Served, Counter>,
    custom: Mutex<Custom>,
    /// What has been counted before, without the labels that it is found by. The kinds of the table stay, and their series
    /// with them.
    known: RwLock<HashMap<Known, Numbers>>,
}

/// Series of the kinds of the table, told apart by where their labels stand: texts of the program, which never move. The
/// same text in two places only makes two ways to the same series.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Known {
    /// Address and length.
    labels: [(usize, usize); 5],
    subresource: String,
    dry_run: bool,
    code: u16,
    is_sized: bool,
}

/// The numbers of one kind of request.
#[derive(Debug)]
struct Numbers {
    requests: Counter,
    durations: Histogram,
    /// Only of answers in one piece.
    sizes: Option<Histogram>,
}

impl Numbers {
    fn count(&self, took: Duration, bytes: Option<u64>) {
        self.requests.inc();
        self.durations.observe(took.as_secs_f64());
        if let (Some(sizes), Some(bytes)) = (&self.sizes, bytes) {
            sizes.observe(bytes as f64);
        }
    }
}

/// The series of kinds that may go.
#[derive(Debug, Default)]
struct Custom {
    series: HashMap<Served, Series>,
    /// The kinds by which it was last looked which of them have gone.
    looked: Option<Arc<Kinds>>,
}

/// The series of one kind.
#[derive(Debug, Default)]
struct Series {
    subjects: HashSet<Labels>,
    done: HashSet<Done>,
}

/// A request that is being served. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Flying {
    gauge: Gauge,
}

impl Drop for Flying {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl Subject {
    /// `watch`: by path or parameter.
    pub(super) fn of(method: &Method, target: &Target, watch: bool) -> Subject {
        let is_collection = target.name.is_empty();
        let verb = match *method {
            Method::GET if watch => "WATCH",
            Method::GET if is_collection => "LIST",
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE if is_collection => "DELETECOLLECTION",
            Method::DELETE => "DELETE",
            _ => "other",
        };
        // As upstream: one object, the objects of a namespace, those of all.
        let scope = match (is_collection, target.namespace.is_empty()) {
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        let kind = target.kind;
        let labels = Labels {
            verb,
            group: kind.group,
            version: kind.version,
            resource: kind.plural,
            subresource: target.subresource.clone(),
            scope,
            component: "apiserver",
        };
        Subject { labels, is_custom: kind.extension.is_some() }
    }

    /// A request that has no resource: discovery, documents.
    pub(super) fn path(method: &Method) -> Subject {
        let verb = if *method == Method::GET { "GET" } else { "other" };
        Subject { labels: Labels { verb, component: "apiserver", ..Labels::default() }, is_custom: false }
    }

    /// Whether it changes nothing.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.labels.verb, "GET" | "LIST" | "WATCH")
    }

    /// Whether it lasts until the client or a limit ends it.
    pub(super) fn is_long_running(&self) -> bool {
        let part = self.labels.subresource.as_str();
        self.labels.verb == "WATCH" || matches!(part, "log" | "exec" | "attach" | "portforward" | "proxy")
    }
}

impl Counts {
    pub(super) fn new() -> Counts {
        Counts {
            inner: Arc::new(Inner {
                requests: Family::default(),
                durations: Family::new_with_constructor(|| Histogram::new(DURATIONS.iter().copied())),
                sizes: Family::new_with_constructor(|| Histogram::new(SIZES.iter().copied())),
                inflight: Family::default(),
                long_running: Family::default(),
                watch_events: Family::default(),
                custom: Mutex::default(),
                known: RwLock::default(),
            }),
        }
    }

    /// A request begins. What lasts is counted by itself, for as long as its answer is written.
    pub(super) fn begin(&self, subject: &Subject) -> Flying {
        let gauge = if subject.is_long_running() {
            self.note(subject, |series| {
                series.subjects.insert(subject.labels.clone());
            });
            self.inner.long_running.get_or_create(&subject.labels).clone()
        } else {
            let request_kind = if subject.is_read() { "readOnly" } else { "mutating" };
            self.inner.inflight.get_or_create(&Flight { request_kind }).clone()
        };
        gauge.inc();
        Flying { gauge }
    }

    /// A request has been answered; `bytes`: of an answer in one piece.
    pub(super) fn end(&self, subject: &Subject, dry_run: bool, code: u16, took: Duration, bytes: Option<u64>) {
        let labels = &subject.labels;
        let known = (!subject.is_custom).then(|| Known {
            labels: [labels.verb, labels.group, labels.version, labels.resource, labels.scope]
                .map(|text| (text.as_ptr().addr(), text.len())),
            subresource: labels.subresource.clone(),
            dry_run,
            code,
            is_sized: bytes.is_some(),
        });
        if let Some(known) = &known
            && let Some(numbers) = self.inner.known.read().get(known)
        {
            return numbers.count(took, bytes);
        }
        let done = Done {
            verb: labels.verb,
            dry_run: if dry_run { "All" } else { "" },
            group: labels.group,
            version: labels.version,
            resource: labels.resource,
            subresource: labels.subresource.clone(),
            scope: labels.scope,
            component: labels.component,
            code,
        };
        let numbers = Numbers {
            requests: self.inner.requests.get_or_create(&done).clone(),
            durations: self.inner.durations.get_or_create(labels).clone(),
            sizes: bytes.map(|_| self.inner.sizes.get_or_create(labels).clone()),
        };
        numbers.count(took, bytes);
        self.note(subject, |series| {
            series.subjects.insert(labels.clone());
            series.done.insert(done.clone());
        });
        if let Some(known) = known {
            self.inner.known.write().insert(known, numbers);
        }
    }

    /// Events were written to a watch of this kind.
    pub(super) fn sent(&self, kind: &'static listwatch_proto::resource::Kind, events: u64) {
        let of = Served { group: kind.group, version: kind.version, resource: kind.plural };
        if kind.extension.is_some() {
            self.inner.custom.lock().series.entry(of.clone()).or_default();
        }
        self.inner.watch_events.get_or_create(&of).inc_by(events);
    }

    /// Notes the series of a kind that may go.
    fn note(&self, subject: &Subject, series: impl FnOnce(&mut Series)) {
        if subject.is_custom {
            let Labels { group, version, resource, .. } = subject.labels;
            series(self.inner.custom.lock().series.entry(Served { group, version, resource }).or_default());
        }
    }

    /// Lets the series go whose kinds are no longer served. Cheap while the kinds are the same.
    pub(super) fn keep(&self, kinds: &Arc<Kinds>) {
        let mut custom = self.inner.custom.lock();
        if custom.looked.as_ref().is_some_and(|looked| Arc::ptr_eq(looked, kinds)) {
            return;
        }
        custom.looked = Some(kinds.clone());
        if custom.series.is_empty() {
            return;
        }
        let served: HashSet<_> = kinds.custom().map(|kind| (kind.group, kind.version, kind.plural)).collect();
        custom.series.retain(|of, series| {
            let stays = served.contains(&(of.group, of.version, of.resource));
            if !stays {
                self.remove(of, series);
            }
            stays
        });
    }

    fn remove(&self, of: &Served, series: &Series) {
        let inner = &self.inner;
        inner.watch_events.remove(of);
        for subject in &series.subjects {
            inner.durations.remove(subject);
            inner.sizes.remove(subject);
            inner.long_running.remove(subject);
        }
        for done in &series.done {
            inner.requests.remove(done);
        }
    }

    /// Prometheus adds `_total` to the names of counters.
    fn register(&self, metrics: &mut Metrics) {
        let inner = &self.inner;
        metrics.register(
            "apiserver_request",
            "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, \
             component, and HTTP response code",
            inner.requests.clone(),
        );
        metrics.register(
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds for each verb, group, version, resource, subresource, scope and \
             component",
            inner.durations.clone(),
        );
        metrics.register(
            "apiserver_response_sizes",
            "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component",
            inner.sizes.clone(),
        );
        metrics.register(
            "apiserver_current_inflight_requests",
            "Number of requests that are being served, by kind",
            inner.inflight.clone(),
        );
        metrics.register(
            "apiserver_longrunning_requests",
            "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and \
             component",
            inner.long_running.clone(),
        );
        metrics.register(
            "apiserver_watch_events",
            "Number of events sent in watch clients",
            inner.watch_events.clone(),
        );
    }
}

#[derive(Clone, Debug)]
struct Source {
    counts: Counts,
    engine: Engine,
}

/// `/metrics`.
pub(super) fn router(counts: Counts, engine: Engine) -> Router {
    Router::new().route("/metrics", any(text)).with_state(Source { counts, engine })
}

async fn text(State(source): State<Source>) -> Response {
    let mut metrics = Metrics::default();
    source.counts.register(&mut metrics);
    store(&mut metrics, &source.engine);
    process(&mut metrics);
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &metrics);
    let mut response = answer::plain(text);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}

fn gauge(metrics: &mut Metrics, name: &str, help: &str, value: f64) {
    let gauge = Gauge::<f64, AtomicU64>::default();
    gauge.set(value);
    metrics.register(name, help, gauge);
}

fn store(metrics: &mut Metrics, engine: &Engine) {
    let status = engine.status();
    gauge(metrics, "apiserver_storage_size_bytes", "Size of the store on the disk in bytes", status.db_size as f64);
    gauge(metrics, "etcd_debugging_mvcc_keys_total", "Live keys", status.keys as f64);
    gauge(metrics, "etcd_debugging_mvcc_current_revision", "The current revision", status.revision as f64);
    gauge(
        metrics,
        "etcd_debugging_mvcc_compact_revision",
        "The revision of the last compaction",
        status.compacted as f64,
    );
    gauge(metrics, "etcd_debugging_mvcc_watcher_total", "Watchers", status.watchers as f64);
}

/// The process, as the kernel counts it.
fn process(metrics: &mut Metrics) {
    let page = rustix::param::page_size() as f64;
    if let Some((virtual_pages, resident)) = memory_pages() {
        gauge(metrics, "process_resident_memory_bytes", "Resident memory size in bytes", resident * page);
        gauge(metrics, "process_virtual_memory_bytes", "Virtual memory size in bytes", virtual_pages * page);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        gauge(metrics, "process_open_fds", "Number of open file descriptors", open.count() as f64);
    }
    if let Some(seconds) = cpu_seconds() {
        let counter = Counter::<f64, AtomicU64>::default();
        counter.inc_by(seconds);
        metrics.register("process_cpu_seconds", "Total user and system CPU time spent in seconds", counter);
    }
}

fn memory_pages() -> Option<(f64, f64)> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_whitespace().map(str::parse::<f64>);
    Some((pages.next()?.ok()?, pages.next()?.ok()?))
}

fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name in parentheses, which may hold anything: user and system time are the 12th and 13th.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(11).map(str::parse::<f64>);
    let ticks = words.next()?.ok()? + words.next()?.ok()?;
    Some(ticks / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_proto::resource::{Extension, Kind};

    #[test]
    fn the_series_of_a_kind_go_with_it() {
        let counts = Counts::new();
        let text = || {
            let mut metrics = Metrics::default();
            counts.register(&mut metrics);
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &metrics).expect("text");
            text
        };
        let kind = Kind {
            group: "x.io",
            plural: "gizmos",
            extension: Some(Extension(&7u32)),
            ..*Kind::by_name("pod").expect("known")
        };
        let target = Target::collection(Box::leak(Box::new(kind)), "default");
        let own = Target::collection(Kind::by_name("pod").expect("known"), "default");
        for target in [&target, &own] {
            for watch in [false, true] {
                let subject = Subject::of(&Method::GET, target, watch);
                drop(counts.begin(&subject));
                counts.end(&subject, false, 200, Duration::from_millis(1), Some(1));
            }
            counts.sent(target.kind, 1);
        }
        assert!(text().contains("gizmos"));
        counts.keep(&Arc::default());
        assert!(!text().contains("gizmos"), "{}", text());
        assert!(text().contains("pods") && counts.inner.custom.lock().series.is_empty());
    }

    #[test]
    fn requests_are_counted_under_upstreams_names() {
        let counts = Counts::new();
        let target = Target::collection(Kind::by_name("deployment").expect("known"), "default");
        let list = Subject::of(&Method::GET, &target, false);
        let watch = Subject::of(&Method::GET, &target, true);
        drop(counts.begin(&list));
        let flying = counts.begin(&watch);
        counts.end(&list, false, 200, Duration::from_millis(30), Some(5000));
        counts.end(&list, false, 200, Duration::from_millis(30), Some(5000));
        counts.end(&list, false, 200, Duration::from_millis(30), None);
        counts.end(&list, true, 404, Duration::from_millis(30), None);
        counts.sent(target.kind, 3);
        let mut metrics = Metrics::default();
        counts.register(&mut metrics);
        process(&mut metrics);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &metrics).expect("text");
        for line in [
            "apiserver_request_total{verb=\"LIST\",dry_run=\"\",group=\"apps\",version=\"v1\",resource=\"deployments\",\
             subresource=\"\",scope=\"namespace\",component=\"apiserver\",code=\"200\"} 3",
            "component=\"apiserver\",code=\"404\"} 1",
            "apiserver_response_sizes_count{verb=\"LIST\",group=\"apps\",version=\"v1\",resource=\"deployments\",\
             subresource=\"\",scope=\"namespace\",component=\"apiserver\"} 2",
            "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 0",
            "apiserver_longrunning_requests{verb=\"WATCH\",group=\"apps\",version=\"v1\",resource=\"deployments\",\
             subresource=\"\",scope=\"namespace\",component=\"apiserver\"} 1",
            "apiserver_watch_events_total{group=\"apps\",version=\"v1\",resource=\"deployments\"} 3",
            "process_cpu_seconds_total ",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert!(text.contains("apiserver_request_duration_seconds_bucket{le=\"0.05\",verb=\"LIST\""), "{text}");
        drop(flying);
    }
}
