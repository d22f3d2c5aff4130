//! The shim's loop: one `poll` over signals, outputs and the cluster's pipe.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Signal, WaitStatus},
};

use super::{
    super::{
        cri_log::{LogWriter, Stream},
        layout::AttemptDir,
        record::{self, Ending, Exit, Spec, Stop},
    },
    container::Container,
    sys::{self, Reaped, Signals},
};
use crate::clock::{Clock, SystemClock, monotonic};

/// How much output is read at once.
const READ_BYTES: usize = 64 * 1024;

/// How long outputs may stay open after the last process is gone: only a descriptor that was sent to a stranger does.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// How often the descendants are looked through again while the kernel takes its time to end them.
const REAP_AGAIN: Duration = Duration::from_millis(100);

/// Watches over a container until all of it is gone.
#[derive(Debug)]
pub(super) struct Supervisor<'a> {
    pub(super) dir: &'a AttemptDir,
    pub(super) spec: &'a Spec,
    pub(super) container: Container,
    pub(super) log: LogWriter,
    pub(super) signals: Signals,
    /// Readable when the cluster is gone; `None` once that was seen.
    pub(super) cluster: Option<BorrowedFd<'a>>,
}

/// How far the container is.
#[derive(Debug)]
enum Phase {
    /// It runs. Next: a request to stop, or its end.
    Running,
    /// It has SIGTERM. Next: its end, or SIGKILL at the given time.
    Stopping { kill_at: Instant, ending: Ending },
    /// Its first process has ended and the rest has SIGKILL. Next: the last child is reaped.
    Reaping { exit: Exit },
    /// No process is left; what they wrote is read to its end. Next: the shim ends.
    Draining { exit: Exit, until: Instant },
}

impl Supervisor<'_> {
    /// Runs until no process of the container is left. An error means that the shim itself cannot go on.
    pub(super) fn run(mut self) -> io::Result<Exit> {
        let mut phase = Phase::Running;
        let mut outputs = [true, true];
        loop {
            if let Phase::Draining { exit, until } = &phase
                && (outputs == [false, false] || monotonic() >= *until)
            {
                return Ok(exit.clone());
            }
            let ready = self.wait(outputs, deadline(&phase))?;
            for stream in [Stream::Stdout, Stream::Stderr] {
                if ready.outputs[stream as usize] {
                    outputs[stream as usize] = self.copy(stream);
                }
            }
            let mut stop = None;
            if ready.cluster_gone {
                self.cluster = None;
                stop = Some((Duration::from_millis(self.spec.grace_millis), Ending::ClusterGone));
            }
            if ready.signals && self.signals.take()?.contains(&libc::SIGTERM) {
                stop = Some((self.requested_grace(), Ending::Stopped));
            }
            if let Some((grace, ending)) = stop {
                phase = self.stop(phase, grace, ending)?;
            }
            phase = self.advance(phase)?;
        }
    }

    /// Waits for something to do.
    fn wait(&self, outputs: [bool; 2], deadline: Option<Instant>) -> io::Result<Ready> {
        let mut fds = vec![PollFd::new(self.signals.as_file(), PollFlags::IN)];
        let mut places = [None; 2];
        for (stream, file) in [(0, &self.container.stdout), (1, &self.container.stderr)] {
            if outputs[stream] {
                places[stream] = Some(fds.len());
                fds.push(PollFd::new(file, PollFlags::IN));
            }
        }
        let cluster_place = self.cluster.as_ref().map(|pipe| {
            // Nobody ever writes into it: readable means its end, on a pipe and on a socket whose other half was shut.
            fds.push(PollFd::from_borrowed_fd(*pipe, PollFlags::IN | PollFlags::RDHUP));
            fds.len() - 1
        });
        let timeout = deadline.map(|at| {
            let left = at.saturating_duration_since(monotonic());
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |place: usize| !fds[place].revents().is_empty();
        Ok(Ready {
            signals: ready(0),
            outputs: places.map(|place| place.is_some_and(ready)),
            cluster_gone: cluster_place.is_some_and(ready),
        })
    }

    /// Copies what can be read into the log; false at the end of the stream. A log that cannot be written loses
    /// output but never stops the container, which is what a full disk must not do.
    fn copy(&mut self, stream: Stream) -> bool {
        let mut buffer = [0u8; READ_BYTES];
        let source: &mut File = match stream {
            Stream::Stdout => &mut self.container.stdout,
            Stream::Stderr => &mut self.container.stderr,
        };
        let read = source.read(&mut buffer);
        let now = SystemClock.now();
        let (written, open) = match read {
            Ok(0) => (self.log.end(stream, now), false),
            Ok(n) => (self.log.output(stream, &buffer[..n], now), true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (Ok(()), true),
            Err(error) => (Err(error), false),
        };
        if let Err(error) = written {
            eprintln!("{now} {}: output lost: {error}", stream.as_str());
        }
        open
    }

    /// The grace that the kubelet has asked for.
    fn requested_grace(&self) -> Duration {
        let millis = match record::read::<Stop>(&self.dir.stop()) {
            Ok(Some(stop)) => stop.grace_millis,
            Ok(None) => self.spec.grace_millis,
            Err(error) => {
                eprintln!("{}: the grace of the spec is used: {error}", SystemClock.now());
                self.spec.grace_millis
            }
        };
        Duration::from_millis(millis)
    }

    /// Asks the container to end; a later request may only shorten the time it has.
    fn stop(&self, phase: Phase, grace: Duration, asked: Ending) -> io::Result<Phase> {
        let until = monotonic() + grace;
        match phase {
            Phase::Running => {
                self.container.signal(Signal::TERM)?;
                // A stopped process would sleep through its grace.
                self.container.signal(Signal::CONT)?;
                Ok(Phase::Stopping { kill_at: until, ending: asked })
            }
            Phase::Stopping { kill_at, ending } => Ok(Phase::Stopping { kill_at: kill_at.min(until), ending }),
            later => Ok(later),
        }
    }

    /// Reaps what has ended and kills what has had its time.
    fn advance(&self, phase: Phase) -> io::Result<Phase> {
        let mut phase = phase;
        if let Phase::Stopping { kill_at, .. } = &phase
            && monotonic() >= *kill_at
        {
            self.container.signal(Signal::KILL)?;
        }
        loop {
            match (sys::reap()?, phase) {
                (Reaped::Child(pid, status), before) if pid == self.container.identity.pid => {
                    phase = self.first_ended(&before, status)?;
                }
                (Reaped::Child(..), before) => phase = before,
                (Reaped::NoneYet, Phase::Reaping { exit }) => {
                    sys::kill_children()?;
                    return Ok(Phase::Reaping { exit });
                }
                (Reaped::NoChildren, Phase::Reaping { exit }) => {
                    return Ok(Phase::Draining { exit, until: monotonic() + DRAIN_MAX });
                }
                (_, before) => return Ok(before),
            }
        }
    }

    /// With its first process a container ends: the rest of it is killed, as the kernel does it for a namespace.
    fn first_ended(&self, before: &Phase, status: WaitStatus) -> io::Result<Phase> {
        let ending = match before {
            Phase::Stopping { ending, .. } => *ending,
            _ => Ending::Own,
        };
        self.container.signal(Signal::KILL)?;
        Ok(Phase::Reaping { exit: self.container.exit(status, ending) })
    }
}

#[derive(Debug)]
struct Ready {
    signals: bool,
    outputs: [bool; 2],
    cluster_gone: bool,
}

fn deadline(phase: &Phase) -> Option<Instant> {
    match phase {
        Phase::Running => None,
        Phase::Stopping { kill_at, .. } => {
            // Past it, SIGKILL is sent; from then on only the kernel can be slow.
            Some(if *kill_at > monotonic() { *kill_at } else { monotonic() + REAP_AGAIN })
        }
        Phase::Reaping { .. } => Some(monotonic() + REAP_AGAIN),
        Phase::Draining { until, .. } => Some(*until),
    }
}
