//! Who has a port: so that a refusal can name the process to stop.
//!
//! Linux tells it under `/proc`: the table of sockets gives the inode, the descriptors of the processes give the rest.
//! Best effort: other users' processes are not seen.

use std::fs;

/// `NAME (pid N)` of the process that listens on a port, if this user may see it.
pub fn port_owner(port: u16) -> Option<String> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| listening_inode(table, port))?;
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    for pid in processes.filter(|name| name.bytes().all(|b| b.is_ascii_digit())) {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let holds = |file: fs::DirEntry| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == &*wanted);
        if files.filter_map(Result::ok).any(holds) {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            return Some(format!("{} (pid {pid})", name.trim_end()));
        }
    }
    None
}

fn listening_inode(table: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let local = format!(":{port:04X}");
    fs::read_to_string(table).ok()?.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&local) && *fields.get(3)? == LISTEN;
        fields.get(9).filter(|_| is_it).map(|inode| (*inode).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_port_is_named() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = held.local_addr().expect("bound").port();
        let owner = port_owner(port).expect("this process is seen");
        assert!(owner.contains(&format!("(pid {})", std::process::id())), "{owner}");
        drop(held);
        assert_eq!(port_owner(port), None);
    }
}
