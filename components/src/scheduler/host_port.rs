//! Ports of a node that pods take, and when two of them are in each other's way.
//!
//! Invariant: an address that is missing is every address, a protocol that is missing is TCP (Kubernetes 1.36,
//! `HostPortInfo`). Addresses are compared as text; only `0.0.0.0` stands for all.

/// Every address of the node.
const ANY: &str = "0.0.0.0";

/// A port of the node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `hostIP`.
    address: Box<str>,
    /// `protocol`.
    protocol: Box<str>,
    /// `hostPort`, above 0.
    port: i32,
}

impl HostPort {
    /// As a container asks for it.
    pub fn new(address: Option<&str>, protocol: Option<&str>, port: i32) -> Self {
        HostPort {
            address: address.filter(|a| !a.is_empty()).unwrap_or(ANY).into(),
            protocol: protocol.filter(|p| !p.is_empty()).unwrap_or("TCP").into(),
            port,
        }
    }

    /// Whether both cannot be had at the same time.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || *self.address == *ANY || *other.address == *ANY)
    }
}

/// Whether any of the wanted ports is taken.
pub(super) fn taken(wanted: &[HostPort], used: &[HostPort]) -> bool {
    wanted.iter().any(|w| used.iter().any(|u| w.conflicts(u)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: (&str, &str, i32), other: (&str, &str, i32), expected: bool) {
        let port = |(address, protocol, port)| HostPort::new(Some(address), Some(protocol), port);
        assert_eq!(port(one).conflicts(&port(other)), expected, "{one:?} and {other:?}");
        assert_eq!(port(other).conflicts(&port(one)), expected, "{other:?} and {one:?}");
    }

    #[test]
    fn ports_conflict_by_number_protocol_and_address() {
        check(("", "", 80), ("0.0.0.0", "TCP", 80), true);
        check(("", "TCP", 80), ("10.0.0.1", "TCP", 80), true);
        check(("10.0.0.1", "TCP", 80), ("10.0.0.1", "", 80), true);
        check(("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), false);
        check(("", "TCP", 80), ("", "UDP", 80), false);
        check(("", "TCP", 80), ("", "TCP", 81), false);
        // Only the IPv4 form stands for every address.
        check(("::", "TCP", 80), ("10.0.0.1", "TCP", 80), false);
        check(("::", "TCP", 80), ("", "TCP", 80), true);
    }

    #[test]
    fn one_port_taken_is_enough() {
        let ports = |numbers: &[i32]| numbers.iter().map(|n| HostPort::new(None, None, *n)).collect::<Vec<_>>();
        assert!(taken(&ports(&[1, 2]), &ports(&[2, 3])));
        assert!(!taken(&ports(&[1, 2]), &ports(&[3])));
        assert!(!taken(&[], &ports(&[3])));
    }
}
