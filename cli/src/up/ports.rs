//! Choosing ports: the usual one or the next free one; one that was asked for, or an error that names its owner.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::bail;
pub(crate) use listwatch_server::transport::port_owner as owner;

/// How many ports above the usual one are tried.
const TRIES: u16 = 200;

/// Where a port number comes from, in the order of weight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// The flag, for messages.
    pub(crate) flag: &'static str,
    /// What the flag said.
    pub(crate) asked: Option<u16>,
    /// What the cluster used the last time; 0 if it is new.
    pub(crate) before: u16,
    /// The usual one.
    pub(crate) usual: u16,
}

/// A port that was free a moment ago, and whether it is another than was to be expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The port.
    pub(crate) port: u16,
    /// The port that would have been taken, had it been free.
    pub(crate) instead_of: Option<u16>,
}

/// Chooses a port on the loopback address that is not among `used`.
///
/// # Errors
/// If the port that was asked for is taken: the text names it and, where it can be known, its owner.
pub(crate) fn choose(wish: &Wish, used: &[u16]) -> anyhow::Result<Choice> {
    match wish.asked {
        Some(0) => return any(used).map(|port| Choice { port, instead_of: None }),
        Some(port) if is_free(port) && !used.contains(&port) => return Ok(Choice { port, instead_of: None }),
        Some(port) => {
            let owner = owner(port).map_or_else(String::new, |owner| format!(" by {owner}"));
            bail!("{} {port}: the port is taken{owner}: choose another, or 0 for any free one", wish.flag);
        }
        None => {}
    }
    let first = if wish.before == 0 { wish.usual } else { wish.before };
    let free = |port: &u16| !used.contains(port) && is_free(*port);
    if free(&first) {
        return Ok(Choice { port: first, instead_of: None });
    }
    let next = (wish.usual..wish.usual.saturating_add(TRIES)).find(free);
    let port = next.map_or_else(|| any(used), Ok)?;
    Ok(Choice { port, instead_of: Some(first) })
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn any(used: &[u16]) -> anyhow::Result<u16> {
    for _ in 0..TRIES {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        if !used.contains(&port) {
            return Ok(port);
        }
    }
    bail!("the system has no free port")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(asked: Option<u16>, before: u16, usual: u16) -> Wish {
        Wish { flag: "--secure-port", asked, before, usual }
    }

    #[test]
    fn a_taken_port_that_was_asked_for_is_refused_with_its_owner() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = held.local_addr().expect("bound").port();
        let error = choose(&wish(Some(port), 0, 6443), &[]).expect_err("taken").to_string();
        assert!(error.contains(&format!("--secure-port {port}: the port is taken by ")), "{error}");
        assert!(error.contains(&format!("(pid {})", std::process::id())), "{error}");
    }

    #[test]
    fn a_taken_port_that_was_not_asked_for_gives_the_next() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = held.local_addr().expect("bound").port();
        let choice = choose(&wish(None, 0, port), &[]).expect("another");
        assert_eq!(choice.instead_of, Some(port));
        assert_ne!(choice.port, port);
        let choice = choose(&wish(None, port, 2379), &[]).expect("another");
        assert_eq!(choice.instead_of, Some(port));
    }

    #[test]
    fn two_doors_never_get_one_port() {
        let free = any(&[]).expect("a port");
        assert_ne!(choose(&wish(None, free, free), &[free]).expect("another").port, free);
    }
}
