//! Addresses and ports of pods that share one machine.
//!
//! Every pod has a loopback address of its own, so equal container ports do not clash. A port that cannot be had there
//! (it needs root, or a stranger has it) is replaced by a free one, and the pod's annotation says so.

use std::{
    collections::HashSet,
    io,
    net::{Ipv4Addr, SocketAddrV4, TcpListener},
    path::Path,
};

use serde::{Deserialize, Serialize};

/// Tells a container the address of its pod.
pub const POD_IP_ENV: &str = "LISTWATCH_POD_IP";

/// Tells a container its ports: `80:34567,443:443`, each as named in the pod and as it really is.
pub const PORTS_ENV: &str = "LISTWATCH_PORTS";

/// Tells a container its first port as it really is: the custom of programs that take one.
pub const PORT_ENV: &str = "PORT";

/// How many pods a node can have: 254 in each of 16 neighbouring networks.
const ADDRESSES: u16 = 16 * 254;

/// One port of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// `containerPort` of the pod.
    pub wanted: u16,
    /// Where it really is.
    pub actual: u16,
}

/// The ports in the form of [`PORTS_ENV`] and of the annotation.
pub fn to_text(ports: &[Port]) -> String {
    let pairs: Vec<_> = ports.iter().map(|port| format!("{}:{}", port.wanted, port.actual)).collect();
    pairs.join(",")
}

/// Finds for each wanted port a place on the address: itself, else where it was before, else a free one.
pub fn place(ip: Ipv4Addr, wanted: &[u16], before: &[Port]) -> io::Result<Vec<Port>> {
    let mut taken = HashSet::new();
    let mut ports = Vec::new();
    for &wanted in wanted {
        let earlier = before.iter().find(|port| port.wanted == wanted).map(|port| port.actual);
        let usable = earlier.into_iter().chain([wanted]).find(|port| !taken.contains(port) && is_free(ip, *port));
        let actual = match usable {
            Some(port) => port,
            None => TcpListener::bind(SocketAddrV4::new(ip, 0))?.local_addr()?.port(),
        };
        taken.insert(actual);
        ports.push(Port { wanted, actual });
    }
    Ok(ports)
}

/// A loopback address for a pod of this node that none of its others has. The node's directory picks the network, so
/// that nodes on one machine hardly ever meet, those of other clusters included, and if they do a taken port is noticed.
pub fn address(node_dir: &Path, taken: &HashSet<Ipv4Addr>) -> Option<Ipv4Addr> {
    let network = fnv(node_dir.as_os_str().as_encoded_bytes());
    (0..ADDRESSES).map(|n| nth_address(network, n)).find(|ip| !taken.contains(ip))
}

fn nth_address(network: u64, n: u16) -> Ipv4Addr {
    // 127.0 stays with the machine.
    let (second, third) = ((network % 254) as u8 + 1, (network >> 16) as u8);
    let [high, low] = (n / 254 * 256 + n % 254 + 1).to_be_bytes();
    Ipv4Addr::new(127, second, third.wrapping_add(high), low)
}

fn is_free(ip: Ipv4Addr, port: u16) -> bool {
    TcpListener::bind(SocketAddrV4::new(ip, port)).is_ok()
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_replaced_and_the_replacement_is_kept() {
        let ip = Ipv4Addr::new(127, 77, 0, 1);
        let stranger = TcpListener::bind(SocketAddrV4::new(ip, 0)).expect("a free port");
        let wanted = stranger.local_addr().expect("bound").port();
        let first = place(ip, &[wanted], &[]).expect("placed");
        assert_ne!(first[0].actual, wanted);
        assert_eq!(place(ip, &[wanted], &first).expect("placed"), first);
        let elsewhere = place(Ipv4Addr::new(127, 77, 0, 2), &[wanted], &[]).expect("placed");
        assert_eq!(elsewhere[0].actual, wanted, "another pod has the port for itself");
        assert_eq!(to_text(&elsewhere), format!("{wanted}:{wanted}"));
    }

    #[test]
    fn pods_of_a_node_have_addresses_of_their_own() {
        let (node, other) = (Path::new("/a/nodes/node01"), Path::new("/b/nodes/node01"));
        let mut taken = HashSet::new();
        for n in 0..ADDRESSES {
            let ip = nth_address(fnv(node.as_os_str().as_encoded_bytes()), n);
            assert!(ip.is_loopback() && ip.octets()[1] > 0 && !matches!(ip.octets()[3], 0 | 255));
            assert!(taken.insert(ip), "{ip} is given once");
        }
        let last = *taken.iter().next().expect("some");
        taken.remove(&last);
        assert_eq!(address(node, &taken), Some(last));
        taken.insert(last);
        assert_eq!(address(node, &taken), None);
        assert_ne!(address(other, &HashSet::new()), address(node, &HashSet::new()));
    }
}
