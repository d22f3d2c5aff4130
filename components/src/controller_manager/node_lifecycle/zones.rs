//! How fast nodes are given the taint that evicts their pods: zone by zone, and not at all when everything is down.
//!
//! When nearly all nodes of a zone, or of the cluster, seem lost, it is likelier that the network is than that they all
//! failed at once (Kubernetes 1.36, `node_lifecycle_controller`). Invariants: who waits in a zone waits in one line; only the
//! first of a line is ever due; what is due is told to the caller, who wakes it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// More nodes than this must be lost before a zone counts as partly disrupted.
const FEW: usize = 2;

/// How fast nodes are tainted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Nodes a second in a healthy zone (`--node-eviction-rate`).
    pub healthy: f64,
    /// Nodes a second in a large zone that is partly disrupted (`--secondary-node-eviction-rate`).
    pub disrupted: f64,
    /// From this share of lost nodes on a zone is partly disrupted (`--unhealthy-zone-threshold`).
    pub unhealthy_share: f64,
    /// A zone with more nodes is large; in a small one that is partly disrupted none is tainted
    /// (`--large-cluster-size-threshold`).
    pub large: usize,
}

impl Default for Rates {
    /// 0.1 and 0.01 nodes a second, 55 %, 50 nodes (Kubernetes 1.36).
    fn default() -> Self {
        Rates { healthy: 0.1, disrupted: 0.01, unhealthy_share: 0.55, large: 50 }
    }
}

/// How a zone does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZoneState {
    /// Most nodes are ready.
    Normal,
    /// Many are not.
    Partial,
    /// None is.
    Full,
}

/// What a change of one node means for the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shift {
    /// Nothing.
    None,
    /// All zones are now without a ready node: nobody is evicted from anywhere.
    CutOff,
    /// One node is ready again: silence counts anew for all.
    Back,
}

/// Whether a node may be tainted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Now.
    Now,
    /// After this time, if nothing changes.
    In(Duration),
    /// When it is told.
    Later,
}

/// A node that is next in its line, and when.
pub(super) type Due = (String, Duration);

/// All zones.
#[derive(Debug)]
pub(super) struct Zones {
    rates: Rates,
    zones: HashMap<Box<str>, Zone>,
    cut_off: bool,
    due: Vec<Due>,
}

#[derive(Debug)]
struct Zone {
    ready: usize,
    lost: usize,
    state: ZoneState,
    limiter: Limiter,
    line: VecDeque<String>,
}

impl Zones {
    /// No zones.
    pub(super) fn new(rates: Rates) -> Self {
        Zones { rates, zones: HashMap::new(), cut_off: false, due: Vec::new() }
    }

    /// Counts a node in.
    pub(super) fn add(&mut self, zone: &str, ready: bool, now: Instant) {
        let zone = self.zone(zone, now);
        if ready { zone.ready += 1 } else { zone.lost += 1 }
    }

    /// Counts a node out.
    pub(super) fn remove(&mut self, zone: &str, ready: bool) {
        let Some(held) = self.zones.get_mut(zone) else { return };
        let count = if ready { &mut held.ready } else { &mut held.lost };
        *count = count.saturating_sub(1);
    }

    /// A zone may be without nodes that count and still have some that wait.
    fn zone(&mut self, zone: &str, now: Instant) -> &mut Zone {
        let limiter = Limiter::full(self.rates.healthy, now);
        let fresh = || Zone { ready: 0, lost: 0, state: ZoneState::Normal, limiter, line: VecDeque::new() };
        self.zones.entry(zone.into()).or_insert_with(fresh)
    }

    /// Judges the zones anew after nodes were counted in and out; a zone that changes gets its new rate.
    pub(super) fn settle(&mut self, now: Instant) -> Shift {
        // What has emptied its bucket is remembered until that is full again.
        self.zones.retain(|_, zone| zone.counted() > 0 || !zone.line.is_empty() || !zone.limiter.is_full(now));
        let mut counted = self.zones.values().filter(|zone| zone.counted() > 0).peekable();
        let all_full = counted.peek().is_some() && counted.all(|zone| judge(zone, self.rates) == ZoneState::Full);
        for (name, zone) in &mut self.zones {
            let state = judge(zone, self.rates);
            let rate = rate(state, zone.counted(), self.rates);
            #[expect(clippy::float_cmp, reason = "a rate is one of the options, copied, never computed")]
            if state == zone.state && rate == zone.limiter.rate {
                continue;
            }
            tracing::info!(zone = %name, from = ?zone.state, to = ?state, rate, "a zone of nodes has changed");
            zone.state = state;
            zone.limiter.set_rate(rate, now);
            self.due.extend(zone.next(now));
        }
        let shift = match (self.cut_off, all_full) {
            (false, true) => Shift::CutOff,
            (true, false) => Shift::Back,
            _ => Shift::None,
        };
        self.cut_off = all_full;
        shift
    }

    /// Whether no node anywhere is ready.
    pub(super) fn cut_off(&self) -> bool {
        self.cut_off
    }

    /// Asks for a node to be tainted; it waits in the line of its zone until it is its turn.
    pub(super) fn request(&mut self, zone: &str, node: &str, now: Instant) -> Turn {
        if self.cut_off {
            return Turn::Later;
        }
        let zone = self.zone(zone, now);
        if !zone.line.iter().any(|held| held == node) {
            zone.line.push_back(node.to_owned());
        }
        if zone.line.front().is_none_or(|front| front != node) {
            return Turn::Later;
        }
        match zone.limiter.take(now) {
            Ok(()) => {
                zone.line.pop_front();
                let next = zone.next(now);
                self.due.extend(next);
                Turn::Now
            }
            Err(wait) => wait.map_or(Turn::Later, Turn::In),
        }
    }

    /// The node need not be tainted any more.
    pub(super) fn withdraw(&mut self, zone: &str, node: &str, now: Instant) {
        let Some(zone) = self.zones.get_mut(zone) else { return };
        let Some(at) = zone.line.iter().position(|held| held == node) else { return };
        zone.line.remove(at);
        if at == 0 {
            self.due.extend(zone.next(now));
        }
    }

    /// Ready and lost nodes of a zone.
    #[cfg(test)]
    pub(super) fn counts(&self, zone: &str) -> (usize, usize) {
        self.zones.get(zone).map_or((0, 0), |zone| (zone.ready, zone.lost))
    }

    /// The nodes that have become the first of their lines since this was last asked.
    pub(super) fn take_due(&mut self) -> Vec<Due> {
        std::mem::take(&mut self.due)
    }
}

impl Zone {
    fn counted(&self) -> usize {
        self.ready + self.lost
    }

    fn next(&mut self, now: Instant) -> Option<Due> {
        let node = self.line.front()?.clone();
        self.limiter.wait(now).map(|wait| (node, wait))
    }
}

fn judge(zone: &Zone, rates: Rates) -> ZoneState {
    #[expect(clippy::cast_precision_loss, reason = "nodes are counted in thousands")]
    let share = zone.lost as f64 / (zone.lost + zone.ready).max(1) as f64;
    match zone {
        Zone { ready: 0, lost: 1.., .. } => ZoneState::Full,
        Zone { lost, .. } if *lost > FEW && share >= rates.unhealthy_share => ZoneState::Partial,
        _ => ZoneState::Normal,
    }
}

fn rate(state: ZoneState, nodes: usize, rates: Rates) -> f64 {
    match state {
        ZoneState::Normal | ZoneState::Full => rates.healthy,
        ZoneState::Partial if nodes > rates.large => rates.disrupted,
        ZoneState::Partial => 0.0,
    }
}

/// A bucket that holds one.
#[derive(Debug, Clone, Copy)]
struct Limiter {
    rate: f64,
    filled: f64,
    at: Instant,
}

impl Limiter {
    fn full(rate: f64, now: Instant) -> Self {
        Limiter { rate, filled: 1.0, at: now }
    }

    fn set_rate(&mut self, rate: f64, now: Instant) {
        self.fill(now);
        self.rate = rate;
    }

    fn fill(&mut self, now: Instant) {
        self.filled = (self.filled + now.saturating_duration_since(self.at).as_secs_f64() * self.rate).min(1.0);
        self.at = now;
    }

    fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        // Whatever floating point has lost is less than a microsecond of any rate.
        self.filled >= 1.0 - 1e-6
    }

    /// Until there is one to take; `None`: never at this rate.
    fn wait(&mut self, now: Instant) -> Option<Duration> {
        if self.is_full(now) {
            return (self.rate > 0.0).then_some(Duration::ZERO);
        }
        Duration::try_from_secs_f64((1.0 - self.filled) / self.rate).ok().filter(|_| self.rate > 0.0)
    }

    fn take(&mut self, now: Instant) -> Result<(), Option<Duration>> {
        match self.wait(now) {
            Some(Duration::ZERO) => {
                self.filled = 0.0;
                Ok(())
            }
            wait => Err(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(counts: &[(&str, usize, usize)], now: Instant) -> (Zones, Shift) {
        let mut zones = Zones::new(Rates::default());
        for (zone, ready, lost) in counts {
            (0..*ready).for_each(|_| zones.add(zone, true, now));
            (0..*lost).for_each(|_| zones.add(zone, false, now));
        }
        let shift = zones.settle(now);
        (zones, shift)
    }

    fn check(counts: &[(&str, usize, usize)], expected: ZoneState, rate: f64, cut_off: bool) {
        let (zones, shift) = zones(counts, Instant::now());
        let zone = &zones.zones[counts[0].0];
        assert_eq!((zone.state, zones.cut_off()), (expected, cut_off), "{counts:?}");
        assert!((zone.limiter.rate - rate).abs() < 1e-9, "{counts:?}: {}", zone.limiter.rate);
        assert_eq!(shift == Shift::CutOff, cut_off);
    }

    #[test]
    fn a_zone_is_judged_by_its_share_of_lost_nodes() {
        check(&[("a", 2, 0)], ZoneState::Normal, 0.1, false);
        check(&[("a", 1, 1)], ZoneState::Normal, 0.1, false);
        check(&[("a", 1, 2)], ZoneState::Normal, 0.1, false);
        check(&[("a", 2, 3)], ZoneState::Partial, 0.0, false);
        check(&[("a", 27, 33)], ZoneState::Partial, 0.01, false);
        check(&[("a", 28, 32)], ZoneState::Normal, 0.1, false);
        check(&[("a", 0, 1)], ZoneState::Full, 0.1, true);
        check(&[("a", 0, 3), ("b", 1, 0)], ZoneState::Full, 0.1, false);
        check(&[("a", 0, 3), ("b", 0, 1)], ZoneState::Full, 0.1, true);
    }

    #[test]
    fn nodes_of_a_zone_go_one_by_one() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (mut zones, _) = zones(&[("a", 9, 3)], start);
        assert_eq!(zones.request("a", "n1", start), Turn::Now);
        assert_eq!(zones.request("a", "n2", start), Turn::In(Duration::from_secs(10)));
        assert_eq!(zones.request("a", "n3", at(1)), Turn::Later);
        assert_eq!(zones.request("a", "n2", at(4)), Turn::In(Duration::from_secs(6)));
        assert_eq!(zones.request("a", "n3", at(10)), Turn::Later, "it is not its turn");
        zones.take_due();
        assert_eq!(zones.request("a", "n2", at(10)), Turn::Now);
        assert_eq!(zones.take_due(), [("n3".to_owned(), Duration::from_secs(10))], "the next is told when");
        assert_eq!(zones.request("a", "n3", at(20)), Turn::Now);
    }

    #[test]
    fn a_node_that_recovers_makes_room() {
        let start = Instant::now();
        let (mut zones, _) = zones(&[("a", 9, 3)], start);
        for node in ["n1", "n2", "n3"] {
            zones.request("a", node, start);
        }
        zones.take_due();
        zones.withdraw("a", "n2", start);
        assert_eq!(zones.take_due(), [("n3".to_owned(), Duration::from_secs(10))]);
    }

    #[test]
    fn a_small_zone_that_is_disrupted_waits_until_it_is_not() {
        let start = Instant::now();
        let (mut zones, _) = zones(&[("a", 2, 3)], start);
        assert_eq!(zones.request("a", "n1", start), Turn::Later);
        zones.remove("a", false);
        zones.add("a", true, start);
        assert_eq!(zones.settle(start), Shift::None);
        assert_eq!(zones.take_due(), [("n1".to_owned(), Duration::ZERO)]);
        assert_eq!(zones.request("a", "n1", start), Turn::Now);
    }

    #[test]
    fn without_any_ready_node_nobody_is_tainted() {
        let start = Instant::now();
        let (mut zones, shift) = zones(&[("a", 0, 2)], start);
        assert_eq!(shift, Shift::CutOff);
        assert_eq!(zones.request("a", "n1", start), Turn::Later);
        zones.add("a", true, start);
        assert_eq!(zones.settle(start), Shift::Back);
        assert_eq!(zones.settle(start), Shift::None);
        assert_eq!(zones.request("a", "n1", start), Turn::Now);
        zones.remove("a", true);
        assert_eq!(zones.settle(start), Shift::CutOff);
    }

    #[test]
    fn nodes_that_do_not_count_are_tainted_at_the_rate_of_all() {
        let start = Instant::now();
        let (mut zones, _) = zones(&[("a", 1, 0)], start);
        assert_eq!(zones.request("b", "n1", start), Turn::Now);
        zones.settle(start);
        assert_eq!(zones.request("b", "n2", start), Turn::In(Duration::from_secs(10)));
        zones.withdraw("b", "n2", start);
        zones.settle(start + Duration::from_secs(11));
        assert_eq!(zones.zones.len(), 1, "a zone that nobody needs is forgotten");
        // They say nothing about whether everything is down.
        zones.request("b", "n3", start);
        zones.remove("a", true);
        zones.add("a", false, start);
        assert_eq!(zones.settle(start), Shift::CutOff);
    }

    #[test]
    fn without_nodes_nothing_is_cut_off() {
        let start = Instant::now();
        let (mut zones, _) = zones(&[("a", 0, 1)], start);
        zones.remove("a", false);
        assert_eq!(zones.settle(start), Shift::Back);
        assert!(!zones.cut_off());
    }
}
