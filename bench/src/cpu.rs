//! The CPU time a process has spent, from `/proc`.

use std::time::Duration;

use anyhow::Context;

/// Clock ticks per second in `/proc/PID/stat`: a constant of the kernel's interface on every Linux we run on.
const TICKS_PER_SECOND: u64 = 100;

/// User and system time of a process and all its threads. Counts in steps of 10 ms, so measure over seconds.
pub(crate) fn spent(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("read CPU of {pid}"))?;
    // The command's name stands in parentheses and may hold anything, so count from its end.
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest).context("stat without a name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).context("stat without times");
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 1000 / TICKS_PER_SECOND))
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("status without VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_process_has_spent_and_holds_something() {
        let pid = std::process::id();
        assert!(super::spent(pid).is_ok());
        assert!(super::resident(pid).is_ok_and(|bytes| bytes > 100_000));
    }
}
