//! Which process is meant: a number alone is used again after its process is gone.
//!
//! Invariant: a signal goes only through a handle (`pidfd`) that was opened first and compared with the identity after,
//! so it can never reach a later process of the same number.

use std::{fs, io, os::fd::OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

/// A process, by number, start and boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
    /// Which boot (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
}

impl ProcessIdentity {
    /// The process that has this number now.
    pub fn of(pid: i32) -> io::Result<Self> {
        let stat = Stat::read(pid)?;
        Ok(ProcessIdentity { pid, start_ticks: stat.start_ticks, boot_id: boot_id()? })
    }

    /// The calling process.
    pub fn current() -> io::Result<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// A handle on the process, if it lives. A zombie is dead: it waits only for its parent.
    pub fn open(&self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        let fd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The handle holds whatever has the number now; the comparison says whether that is the one meant.
        Ok(self.is_alive()?.then_some(fd))
    }

    /// Whether the process lives.
    pub fn is_alive(&self) -> io::Result<bool> {
        match Stat::read(self.pid) {
            Ok(stat) => Ok(stat.alive && stat.start_ticks == self.start_ticks && boot_id()? == self.boot_id),
            Err(error) if gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Kills what is left of the process group that this process led. A number stays taken as long as a group bears
    /// it, so only a living stranger of the same number means that the group is gone.
    pub fn kill_group(&self) -> io::Result<()> {
        let ours = boot_id()? == self.boot_id
            && match Stat::read(self.pid) {
                Ok(stat) => stat.start_ticks == self.start_ticks,
                Err(error) if gone(&error) => true,
                Err(error) => return Err(error),
            };
        if ours && let Some(pid) = Pid::from_raw(self.pid) {
            match rustix::process::kill_process_group(pid, rustix::process::Signal::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH | rustix::io::Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

struct Stat {
    alive: bool,
    start_ticks: u64,
}

impl Stat {
    fn read(pid: i32) -> io::Result<Self> {
        let text = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&String::from_utf8_lossy(&text))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat has an unknown form")))
    }

    /// The second field is the program's name in parentheses and may itself hold anything, so count from its end.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let start_ticks = fields.nth(18)?.parse().ok()?;
        Some(Stat { alive: !matches!(state, "Z" | "X" | "x"), start_ticks })
    }
}

fn gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn boot_id() -> io::Result<String> {
    use std::sync::OnceLock;
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    if let Some(id) = BOOT_ID.get() {
        return Ok(id.clone());
    }
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    Ok(BOOT_ID.get_or_init(|| id).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 100 200";
        let stat = Stat::parse(line).expect("well formed");
        assert!(stat.alive);
        assert_eq!(stat.start_ticks, 4242);
        assert!(!Stat::parse(&line.replace(" S ", " Z ")).expect("well formed").alive);
    }

    #[test]
    fn a_later_process_of_the_same_number_is_another_one() {
        let mut identity = ProcessIdentity::current().expect("this process");
        assert!(identity.open().expect("readable").is_some());
        identity.start_ticks += 1;
        assert!(identity.open().expect("readable").is_none());
    }
}
