//! What the server hands out to objects of a kind: values that one object at a time may hold, such as an address.
//!
//! A kind says what an object holds ([`Allocation::claims`]) and fills in what it lacks ([`Allocation::complete`]); the
//! registry keeps a key for each claim, written and removed in the same commit as the object, so that no two objects ever
//! hold the same. Invariant: what is held can be told from the object alone, so the keys can be made anew from objects.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use listwatch_proto::resource::{Kind, Object, Status};
use rand::{Rng, RngCore};

/// A value that an object holds for itself alone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    /// What it is taken from: `serviceips`.
    pub(crate) pool: &'static str,
    /// The value: `10.0.0.1`.
    pub(crate) value: String,
    /// An object that tells the world of the claim. It comes and goes with it; where one of that name is already, the
    /// value is taken.
    pub(crate) sign: Option<Sign>,
}

/// An object that stands for a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sign {
    /// Its kind, of the whole cluster.
    pub(crate) kind: &'static Kind,
    /// Without uid and time, which it gets when it is written.
    pub(crate) object: Object,
}

/// What can be handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pools {
    /// `--service-cluster-ip-range`: from these come the addresses of services, one range for each family at most; the
    /// first is the family of services that name none.
    pub addresses: Vec<AddressRange>,
    /// `--service-node-port-range`.
    pub node_ports: RangeInclusive<u16>,
}

impl Default for Pools {
    /// The range that kubeadm gives to services, and kube-apiserver's node ports.
    fn default() -> Self {
        let addresses = AddressRange::new(Ipv4Addr::new(10, 96, 0, 0).into(), 12).expect("no bit is set behind it");
        Pools { addresses: vec![addresses], node_ports: 30_000..=32_767 }
    }
}

/// A range of addresses: `10.0.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// The first of all.
    network: IpAddr,
    /// Of the network, in bits.
    bits: u8,
}

impl AddressRange {
    /// A range; `None` if the prefix is longer than an address, or bits are set behind it.
    pub fn new(network: IpAddr, bits: u8) -> Option<Self> {
        let range = AddressRange { network, bits };
        let width = range.width();
        let behind = if bits == 0 { u128::MAX } else { range.size().checked_sub(1)? };
        (u32::from(bits) <= width && number(network) & behind & mask(width) == 0).then_some(range)
    }

    /// Reads `10.0.0.0/16`.
    pub fn parse(text: &str) -> Option<Self> {
        let (network, bits) = text.split_once('/')?;
        let plain = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
        AddressRange::new(network.parse().ok()?, bits.parse().ok().filter(|_| plain)?)
    }

    fn width(&self) -> u32 {
        if self.network.is_ipv4() { 32 } else { 128 }
    }

    /// How many addresses it has; those of the largest ranges are not all counted.
    fn size(&self) -> u128 {
        1_u128.checked_shl(self.width().saturating_sub(u32::from(self.bits))).unwrap_or(u128::MAX)
    }

    /// Whether it has 8 addresses, and no more than upstream counts.
    pub fn is_large_enough(&self) -> bool {
        self.size() >= 8 && (self.network.is_ipv4() || self.bits >= 64)
    }

    /// `IPv4` or `IPv6`.
    pub fn family(&self) -> &'static str {
        if self.network.is_ipv4() { "IPv4" } else { "IPv6" }
    }

    /// Whether the address lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.network.is_ipv4()
            && number(address).checked_sub(number(self.network)).is_some_and(|behind| behind < self.size())
    }

    /// Whether the address can be handed out: neither the first, nor in IPv4 the last.
    pub(crate) fn is_usable(&self, address: IpAddr) -> bool {
        let last = number(self.network) + (self.size() - 1);
        self.contains(address) && address != self.network && (self.network.is_ipv6() || number(address) != last)
    }

    /// How many can be handed out (upstream counts the same way, and no further than a `u64` goes).
    fn usable(&self) -> u64 {
        let without = if self.network.is_ipv4() { 2 } else { 1 };
        u64::try_from(self.size().saturating_sub(without)).unwrap_or(u64::MAX)
    }

    /// The n-th that can be handed out, from 0.
    pub(crate) fn nth(&self, n: u64) -> IpAddr {
        let number = number(self.network) + 1 + u128::from(n);
        match self.network {
            IpAddr::V4(_) => IpAddr::V4(u32::try_from(number).unwrap_or(u32::MAX).into()),
            IpAddr::V6(_) => IpAddr::V6(number.into()),
        }
    }

    /// Those that are handed out last when nobody asks for them: the first of the range are kept for who names an address
    /// (Kubernetes 1.26 and later).
    fn kept_for_names(&self) -> u64 {
        match self.size() {
            0..=16 => 0,
            size => u64::try_from((size / 16).clamp(16, 256)).unwrap_or(256),
        }
    }

    /// An address that is not taken, by chance; `None` = there is none left.
    pub(crate) fn draw(&self, pool: &'static str, draw: &mut Draw<'_>) -> Option<IpAddr> {
        let kept = self.kept_for_names().min(self.usable());
        let n = draw.pick(kept..self.usable(), |n| draw_name(self.nth(n)), pool);
        n.or_else(|| draw.pick(0..kept, |n| draw_name(self.nth(n)), pool)).map(|n| self.nth(n))
    }
}

impl std::fmt::Display for AddressRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

fn draw_name(address: IpAddr) -> String {
    address.to_string()
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => u128::from(u32::from(four)),
        IpAddr::V6(six) => u128::from(six),
    }
}

fn mask(width: u32) -> u128 {
    if width == 128 { u128::MAX } else { (1 << width) - 1 }
}

/// Chance, and what is known to be taken.
pub(crate) struct Draw<'a> {
    /// By pool and value.
    pub(crate) taken: &'a HashSet<(&'static str, String)>,
    pub(crate) chance: &'a mut dyn RngCore,
}

impl Draw<'_> {
    /// Whether a value is known to be taken.
    pub(crate) fn is_taken(&self, pool: &'static str, value: &str) -> bool {
        self.taken.contains(&(pool, value.to_owned()))
    }

    /// One of a range that is not taken: from a place by chance, then on and around. `None` = all are taken.
    pub(crate) fn pick(
        &mut self,
        range: std::ops::Range<u64>,
        value: impl Fn(u64) -> String,
        pool: &'static str,
    ) -> Option<u64> {
        self.pick_free(range, 0, |draw, n| !draw.is_taken(pool, &value(n)))
    }

    /// One of a range that is free, where up to `more` are not beside those that are known to be taken.
    pub(crate) fn pick_free(
        &mut self,
        range: std::ops::Range<u64>,
        more: usize,
        is_free: impl Fn(&Self, u64) -> bool,
    ) -> Option<u64> {
        let size = range.end.checked_sub(range.start).filter(|size| *size > 0)?;
        let start = self.chance.random_range(0..size);
        // More than are known to be taken need not be tried.
        let tries = size.min((self.taken.len() + more) as u64 + 1);
        (0..tries)
            .map(|step| {
                range.start + u64::try_from((u128::from(start) + u128::from(step)) % u128::from(size)).unwrap_or(0)
            })
            .find(|n| is_free(self, *n))
    }
}

/// What there is beside the object when it is completed.
pub(crate) struct Ground<'a> {
    /// What can be handed out.
    pub(crate) pools: &'a Pools,
    /// The objects of [`Allocation::looks_at`].
    pub(crate) objects: &'a [Object],
    /// Nothing is written: what is drawn need only look like what would be handed out.
    pub(crate) dry_run: bool,
}

/// What a kind is handed out.
pub(crate) trait Allocation: Send + Sync {
    /// Fills in what the object lacks, before it is validated (`old`: what it replaces).
    ///
    /// # Errors
    /// Why the object cannot have what it asks for, or there is nothing left.
    fn complete(
        &self,
        new: &mut Object,
        old: Option<&Object>,
        ground: &Ground<'_>,
        draw: &mut Draw<'_>,
    ) -> Result<(), Status>;

    /// What the object holds, each once.
    fn claims(&self, object: &Object) -> Vec<Claim>;

    /// The kind whose objects have a say in what can be handed out.
    fn looks_at(&self) -> Option<&'static Kind>;

    /// Keys that go when the object goes.
    fn companions(&self, object: &Object) -> Vec<String>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    #[test]
    fn ranges_are_read_and_know_their_addresses() {
        for bad in ["", "10.0.0.0", "10.0.0.1/16", "10.0.0.0/33", "x/8", "10.0.0.0/+8", "fd00::/129"] {
            assert!(AddressRange::parse(bad).is_none(), "{bad}");
        }
        let range = AddressRange::parse("10.0.0.0/30").expect("valid");
        let usable = |text: &str| range.is_usable(text.parse().expect("an address"));
        assert!(usable("10.0.0.1") && usable("10.0.0.2"));
        assert!(!usable("10.0.0.0") && !usable("10.0.0.3") && !usable("10.0.0.4") && !usable("9.255.255.255"));
        assert_eq!((range.usable(), range.nth(0).to_string()), (2, "10.0.0.1".to_owned()));
        assert_eq!(range.to_string(), "10.0.0.0/30");
        let six = AddressRange::parse("fd00::/64").expect("valid");
        assert!(six.is_usable("fd00::ffff:ffff:ffff:ffff".parse().expect("an address")));
        assert!(AddressRange::parse("::/0").is_some_and(|all| all.contains("ff00::".parse().expect("an address"))));
        assert!(AddressRange::parse("0.0.0.0/0").is_some_and(|all| all.usable() == (1 << 32) - 2));
    }

    #[test]
    fn every_address_is_drawn_before_there_is_none_left() {
        let range = AddressRange::parse("10.0.0.0/27").expect("valid");
        let mut chance = StdRng::seed_from_u64(7);
        let mut taken = HashSet::new();
        for n in 0..30 {
            let mut draw = Draw { taken: &taken, chance: &mut chance };
            let address = range.draw("p", &mut draw).expect("one is left");
            assert!(range.is_usable(address), "{address}");
            // The first half is kept for who names an address.
            assert_eq!(n < 14, number(address) - number(range.network) > 16, "{address} at {n}");
            assert!(taken.insert(("p", address.to_string())), "{address} twice");
        }
        assert_eq!(range.draw("p", &mut Draw { taken: &taken, chance: &mut chance }), None);
    }
}
