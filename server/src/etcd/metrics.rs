//! The numbers of the store for Prometheus, under etcd's names where dashboards know them.

use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::front::Front;

/// The format of [`text`].
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All numbers as they are now.
pub(super) fn text(front: &Front) -> String {
    let status = front.engine.status();
    let mut registry = Registry::default();
    let mut gauge = |name: &str, help: &str, value: i64| {
        let gauge = Gauge::<i64, AtomicI64>::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    gauge("etcd_server_has_leader", "Whether or not a leader exists", 1);
    gauge("etcd_server_is_leader", "Whether or not this member is the leader", 1);
    gauge("etcd_server_health_success", "Whether the store takes writes", i64::from(status.poisoned.is_none()));
    gauge("etcd_mvcc_db_total_size_in_bytes", "Bytes on disk", status.db_size);
    gauge("etcd_mvcc_db_total_size_in_use_in_bytes", "Bytes of live keys and values", status.db_size_in_use);
    gauge("etcd_debugging_mvcc_keys_total", "Live keys", status.keys);
    gauge("etcd_debugging_mvcc_current_revision", "The current revision", status.revision);
    gauge("etcd_debugging_mvcc_compact_revision", "The revision of the last compaction", status.compacted);
    gauge("listwatch_store_retained_revision", "The oldest revision physically kept", status.retained);
    gauge("etcd_debugging_mvcc_watcher_total", "Watchers", whole(status.watchers));
    gauge("etcd_debugging_lease_total", "Live leases", whole(status.leases));
    gauge(
        "listwatch_store_sequence",
        "The log's sequence number",
        i64::try_from(status.raft_index).unwrap_or(i64::MAX),
    );
    if let Some(bytes) = resident_bytes() {
        gauge("process_resident_memory_bytes", "Resident memory size in bytes", bytes);
    }
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// The process's memory, as the kernel counts it.
fn resident_bytes() -> Option<i64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * i64::try_from(rustix::param::page_size()).ok()?)
}
