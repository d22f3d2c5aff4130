//! Who runs on this machine: the processes of containers, told by the working directory that each of them has of its own.
//!
//! The kernel is asked, not the product's records: a process that the product has lost sight of is seen here too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks. A look at some hundred processes takes a few milliseconds; a second process of a container that
/// lived for less would be missed.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The container `nodes/NODE/pods/UID/NAME`, and the process that leads its group.
pub(crate) type Running = BTreeMap<PathBuf, Vec<u32>>;

/// The processes of every container below a data folder.
pub(crate) fn running(data: &Path) -> Running {
    let nodes = data.join("nodes");
    let mut found = Running::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if let Some(container) = container_of(pid, &nodes) {
            found.entry(container).or_default().push(pid);
        }
    }
    found
}

/// The container that this process leads, if it leads one.
fn container_of(pid: u32, nodes: &Path) -> Option<PathBuf> {
    let at = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    let at = at.to_str()?.trim_end_matches(" (deleted)");
    let inside = Path::new(at).strip_prefix(nodes).ok()?;
    let mut parts = inside.iter();
    let container: PathBuf = parts.by_ref().take(4).collect();
    // Between fork and exec a child of the shim stands in the directory already, but is not the container yet.
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let is_shim = command.split(|byte| *byte == 0).nth(1) == Some(b"shim");
    (parts.next().is_some() && !is_shim && leads_its_group(pid)).then_some(container)
}

fn leads_its_group(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name in brackets: state, parent, group.
    let group = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(2)?.parse::<u32>().ok());
    group == Some(pid)
}

/// Looks again and again, until it is asked what it saw.
pub(crate) struct Lookout {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What a lookout saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// How often it looked.
    pub(crate) looks: u64,
    /// Containers that had two processes at one time.
    pub(crate) twice: Vec<String>,
}

impl Lookout {
    pub(crate) fn start(data: PathBuf) -> Lookout {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !stopped.load(Ordering::Relaxed) {
                look(&data, &mut seen);
                std::thread::sleep(BETWEEN_LOOKS);
            }
            seen
        });
        Lookout { stop, thread }
    }

    pub(crate) fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

fn look(data: &Path, seen: &mut Seen) {
    seen.looks += 1;
    let nodes = data.join("nodes");
    for (container, pids) in running(data).into_iter().filter(|(_, pids)| pids.len() > 1) {
        // One may have ended before the other began, within this look: both must be there still.
        let still: Vec<_> =
            pids.iter().filter(|pid| container_of(**pid, &nodes).as_ref() == Some(&container)).collect();
        if still.len() > 1 {
            seen.twice.push(format!("{} runs as {still:?}", container.display()));
        }
    }
}
