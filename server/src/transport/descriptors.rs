//! How many connections the process has descriptors for.
//!
//! A port that takes all descriptors leaves none to the store for its files. So each takes its share of them at most, and
//! further connections wait in the kernel's queue until one ends.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections of one port at the same time, however many descriptors there are: a bound on memory that no sensible
/// client meets, since one connection carries many streams.
const CONNECTIONS_MAX: u64 = 20_000;

/// Descriptors that are not for connections: the files of the store, the ports themselves, standard streams, connections
/// to kubelets.
const RESERVED: u64 = 128;

/// However few descriptors there are, so many connections are taken.
const CONNECTIONS_MIN: u64 = 8;

/// Asks for as many descriptors as this process may have (as Go's runtime does, and so kube-apiserver and etcd) and
/// answers how many connections each of so many ports may take.
pub fn connections_max(ports: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "asking for more descriptors");
        }
    }
    share(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), ports)
}

fn share(descriptors: u64, ports: usize) -> usize {
    let ports = u64::try_from(ports).unwrap_or(u64::MAX).max(1);
    let each = descriptors.saturating_sub(RESERVED) / ports;
    usize::try_from(each.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_its_share_of_the_descriptors() {
        assert_eq!(share(u64::MAX, 3), 20_000);
        assert_eq!(share(1024, 2), 448);
        assert_eq!(share(1024, 0), 896);
        assert_eq!((share(64, 2), share(0, 2)), (8, 8));
    }
}
