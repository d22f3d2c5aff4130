//! What the files say about the runs of a container, and how runs without a shim are brought to an end.

use std::{fs, io, os::fd::OwnedFd};

use super::{
    layout::{AttemptDir, ContainerDir},
    lock::{self, Lock},
    record::{self, Durability, Ending, Exit, Spec, Started, Starting},
    termination,
};
use crate::clock::{Clock, SystemClock};

/// The exit code of a container whose end nobody saw (Kubernetes: `ContainerStatusUnknown`).
pub const CODE_UNKNOWN: i32 = 137;

/// One run of a container, as its files tell it.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// What was to run.
    pub spec: Spec,
    /// That it was started; `None` if it never was.
    pub started: Option<Started>,
    /// How it ended; `None` while it runs.
    pub exit: Option<Exit>,
    /// What it has to say of its end.
    pub message: String,
}

/// A container found on disk.
#[derive(Debug)]
pub struct Found {
    /// The last run.
    pub last: Attempt,
    /// The run before it, if its files are still there.
    pub previous: Option<Attempt>,
    /// A handle on the shim of the last run, if that still runs.
    pub shim: Option<OwnedFd>,
}

/// Reads a run; `None` if the directory holds none.
pub fn read(dir: &AttemptDir) -> io::Result<Option<Attempt>> {
    let Some(spec) = record::read(&dir.spec())? else { return Ok(None) };
    let exit = record::read(&dir.exit())?;
    let message = exit.as_ref().map(|exit| termination::message(dir, &spec, exit)).unwrap_or_default();
    Ok(Some(Attempt { spec, started: record::read(&dir.started())?, exit, message }))
}

/// What is known of a container: its last run, with a handle on its shim if it still runs. A run whose shim is gone
/// is ended first, so the answer is always a living shim or an exit.
pub fn find(dir: &ContainerDir) -> io::Result<Option<Found>> {
    let living = match dir.attempts()?.last() {
        None => return Ok(None),
        Some(&number) => living_shim(&dir.attempt(number))?,
    };
    if living.is_none() {
        // The lock first: from here on no shim of this container can write.
        let lock = lock::take_by_force(&dir.lock())?;
        settle(dir, &lock)?;
    }
    let numbers = dir.attempts()?;
    let Some((&number, earlier)) = numbers.split_last() else { return Ok(None) };
    let Some(last) = read(&dir.attempt(number))? else { return Ok(None) };
    let previous = match earlier.last() {
        Some(&number) => read(&dir.attempt(number))?,
        None => None,
    };
    let shim = if last.exit.is_none() { living } else { None };
    Ok(Some(Found { last, previous, shim }))
}

/// Brings runs without a shim to an end: what may have run gets an exit, what surely never ran is taken away.
/// Gives the number of the last run that is left.
pub fn settle(dir: &ContainerDir, _held: &Lock) -> io::Result<Option<u32>> {
    let mut last = None;
    for number in dir.attempts()? {
        let attempt = dir.attempt(number);
        let started: Option<Started> = record::read(&attempt.started())?;
        let starting: Option<Starting> = record::read(&attempt.starting())?;
        if record::read::<Exit>(&attempt.exit())?.is_some() {
            last = Some(number);
        } else if started.is_none() && starting.is_none() {
            fs::remove_dir_all(attempt.path())?;
        } else {
            if let Some(started) = &started {
                started.process.kill_group()?;
            }
            let exit = Exit {
                code: CODE_UNKNOWN,
                signal: None,
                ending: Ending::Lost,
                message: "The container could not be located when the kubelet looked for it".into(),
                started_at: started.map(|started| started.at),
                finished_at: SystemClock.now(),
            };
            record::write(&attempt.exit(), &exit, Durability::Synced)?;
            last = Some(number);
        }
    }
    Ok(last)
}

/// The shim of a run that has started, if it lives. One that has not yet written `started.json` is not waited for:
/// its kubelet is gone, so it is treated as lost.
fn living_shim(dir: &AttemptDir) -> io::Result<Option<OwnedFd>> {
    match record::read::<Started>(&dir.started())? {
        Some(started) => started.shim.open(),
        None => Ok(None),
    }
}
