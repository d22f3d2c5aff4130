//! What is done to the components while they work.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use listwatch_integration_tests::Cluster;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rustix::process::{Pid, Signal, kill_process};

/// Something is done to one of them this often.
const EVERY: Duration = Duration::from_secs(1);
/// A stopped process stands still for so long.
const STANDSTILL: Duration = Duration::from_secs(5);

/// What happens to a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL; the supervisor starts it again.
    Kill,
    /// SIGSTOP, and SIGCONT after five seconds.
    Stop,
}

/// How often what was done to whom.
pub(crate) type Done = BTreeMap<String, u32>;

/// Once a second a component taken at random is killed or stopped, until the time is over; then all run again.
pub(crate) async fn storm(
    cluster: &Cluster,
    fault: Fault,
    time: Duration,
    random: &mut StdRng,
) -> anyhow::Result<Done> {
    let mut done = Done::new();
    let mut standing: Vec<(Instant, Pid)> = Vec::new();
    let end = Instant::now() + time;
    let mut clock = tokio::time::interval(EVERY);
    while Instant::now() < end {
        clock.tick().await;
        standing.retain(|(until, pid)| *until > Instant::now() || kill_process(*pid, Signal::CONT).is_err());
        let alive: Vec<(String, Pid)> = components(cluster)?;
        let alive: Vec<_> = alive.iter().filter(|(_, pid)| standing.iter().all(|(_, held)| held != pid)).collect();
        let Some((name, pid)) = alive.choose(random) else { continue };
        *done.entry(name.clone()).or_default() += 1;
        match fault {
            Fault::Kill => {
                let _ = kill_process(*pid, Signal::KILL);
            }
            Fault::Stop => {
                let _ = kill_process(*pid, Signal::STOP);
                standing.push((Instant::now() + STANDSTILL, *pid));
            }
        }
    }
    for (_, pid) in standing {
        let _ = kill_process(pid, Signal::CONT);
    }
    Ok(done)
}

/// The components that run now.
fn components(cluster: &Cluster) -> anyhow::Result<Vec<(String, Pid)>> {
    let status = cluster.status()?;
    let components = status["components"].as_array().map_or(&[][..], Vec::as_slice);
    let running = |component: &serde_json::Value| {
        let pid = Pid::from_raw(i32::try_from(component["pid"].as_i64()?).ok()?)?;
        Some((component["name"].as_str()?.to_owned(), pid))
    };
    Ok(components.iter().filter_map(running).collect())
}
