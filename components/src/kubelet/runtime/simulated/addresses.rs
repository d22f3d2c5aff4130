//! Addresses of simulated pods: distinct on a node, and on the nodes of one cluster as far as their names differ by
//! number. Nothing listens there.

use std::{collections::HashSet, net::Ipv4Addr};

/// How many addresses a node has: the last two bytes, without 0 and 65535.
const ADDRESSES: u16 = u16::MAX - 1;

/// The addresses of one node, `10.N.0.1` and up.
#[derive(Debug)]
pub(super) struct Addresses {
    network: u8,
    taken: HashSet<Ipv4Addr>,
    /// Where the search begins, so that addresses are not given again at once.
    next: u16,
}

impl Addresses {
    /// None taken yet. The upper half of `10.0.0.0/8` is used; the lower one stays with Services.
    pub(super) fn of_node(name: &str) -> Self {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let number = match name[name.len() - digits..].parse::<u64>() {
            Ok(number) => number,
            Err(_) => name.bytes().fold(0, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte))),
        };
        Addresses { network: 128 + (number % 127) as u8, taken: HashSet::new(), next: 1 }
    }

    /// A free one.
    pub(super) fn take(&mut self) -> Option<Ipv4Addr> {
        for _ in 0..ADDRESSES {
            let [high, low] = self.next.to_be_bytes();
            self.next = self.next % ADDRESSES + 1;
            let address = Ipv4Addr::new(10, self.network, high, low);
            if self.taken.insert(address) {
                return Some(address);
            }
        }
        None
    }

    /// One that is known to be in use.
    pub(super) fn keep(&mut self, address: Ipv4Addr) {
        self.taken.insert(address);
    }

    /// It is free again.
    pub(super) fn give_back(&mut self, address: Ipv4Addr) {
        self.taken.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_has_one_of_its_own_until_there_are_no_more() {
        let mut addresses = Addresses::of_node("node01");
        assert_eq!(addresses.take(), Some(Ipv4Addr::new(10, 129, 0, 1)));
        addresses.keep(Ipv4Addr::new(10, 129, 0, 2));
        assert_eq!(addresses.take(), Some(Ipv4Addr::new(10, 129, 0, 3)));
        for _ in 3..ADDRESSES {
            assert!(addresses.take().is_some());
        }
        assert_eq!(addresses.take(), None);
        addresses.give_back(Ipv4Addr::new(10, 129, 1, 7));
        assert_eq!(addresses.take(), Some(Ipv4Addr::new(10, 129, 1, 7)));
    }

    #[test]
    fn nodes_have_networks_of_their_own() {
        let network = |name: &str| Addresses::of_node(name).network;
        let all: HashSet<_> = (1..=99).map(|n| network(&format!("node{n:02}"))).collect();
        assert_eq!(all.len(), 99);
        assert!(network("worker-b") >= 128 && network("node99999999999999999999999") >= 128);
    }
}
