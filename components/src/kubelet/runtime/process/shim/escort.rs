//! The escort: a small single-threaded program that runs one command beside a container, and outlives neither the
//! container nor the kubelet that wants the command.
//!
//! It is handed a connection to the kubelet, and the command's inputs and outputs as its own. All that the command starts
//! stays below the escort, whatever it does (the escort adopts its orphans).
//!
//! Invariants:
//! * The command and all that it has started is killed when the kubelet drops the connection before the command's end.
//! * What the command leaves running, as a background job, is killed when the container ends, or the kubelet, or the cluster.
//! * The escort ends after the last process below it, and holds the cluster's pipe until then, so that who waits for the
//!   end of the cluster waits for these processes too.

use std::{
    ffi::CString,
    io::{self, Read, Write},
    mem::ManuallyDrop,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd, RawFd},
        unix::{ffi::OsStrExt, net::UnixStream, process::CommandExt},
    },
    process::{Command, ExitCode},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::WaitStatus,
};

use super::{
    super::escort::{Order, Told, take_line},
    entry::cluster_pipe,
    sys::{self, Reaped, Signals},
    view::View,
};

/// How often the descendants are looked through again while the kernel takes its time to end them.
const REAP_AGAIN: Duration = Duration::from_millis(20);

/// An order is no larger than what the system lets a program be started with.
const ORDER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Runs the command that the kubelet orders over this inherited connection. Must be called before the program starts any
/// thread.
pub fn escort(connection: RawFd) -> ExitCode {
    let run = || -> io::Result<()> {
        let connection = sys::inherited(connection)?
            .ok_or_else(|| io::Error::other(format!("{connection}: no such descriptor is open")))?;
        run(UnixStream::from(connection))
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // The command's standard error is not the place for it, and the kubelet sees the connection end.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(mut connection: UnixStream) -> io::Result<()> {
    // Out of the kubelet's session and group: what ends the kubelet is seen here, and answered in order.
    rustix::process::setsid()?;
    sys::set_process_name(c"lw-escort");
    sys::adopt_orphans()?;
    let signals = Signals::open()?;
    // Never closed: its end, seen from the other side, is the end of this process.
    let cluster = ManuallyDrop::new(cluster_pipe()?);
    let order = read_order(&mut connection)?;
    let begun = begin(&order);
    // The ends of the command's pipes that are open here would hold up who waits for their end.
    for fd in 0..=2 {
        drop(sys::take_standard(fd)?);
    }
    let begun = match begun {
        Ok(begun) => begun,
        Err(error) => {
            tell(&mut connection, &Told::Failed { errno: error.raw_os_error(), text: error.to_string() });
            return Ok(());
        }
    };
    tell(&mut connection, &Told::Started);
    let cluster = cluster.as_ref().map(AsFd::as_fd);
    Watch { begun, signals, connection: Some(connection), cluster, ending: false }.run()
}

fn read_order(connection: &mut UnixStream) -> io::Result<Order> {
    let mut read = Vec::new();
    let mut buffer = [0u8; 16 * 1024];
    loop {
        if let Some(order) = take_line(&mut read) {
            return order;
        }
        match connection.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if read.len() > ORDER_BYTES_MAX => return Err(io::Error::other("the order is too long")),
            n => read.extend_from_slice(&buffer[..n]),
        }
    }
}

/// Nobody may be there to hear it any more; that is seen where it matters.
fn tell(connection: &mut UnixStream, told: &Told) {
    if let Ok(mut json) = serde_json::to_vec(told) {
        json.push(b'\n');
        let _ = connection.write_all(&json);
    }
}

/// A command that was started, and whose ends are its own.
struct Begun {
    /// The command's number; it is reaped here, so the number stays its own until then.
    pid: i32,
    container: OwnedFd,
    kubelet: OwnedFd,
}

fn begin(order: &Order) -> io::Result<Begun> {
    let gone = || io::Error::other("the container does not run");
    let kubelet = order.kubelet.open()?.ok_or_else(|| io::Error::other("the kubelet is gone"))?;
    let view = View::of(order.container.pid)?;
    // Opened first, looked at after: what was opened belongs to the process that is meant.
    let container = order.container.open()?.ok_or_else(gone)?;
    let (program, args) = order.words.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(order.env.iter().map(|(key, value)| (key, value)));
    let cwd = CString::new(order.cwd.as_os_str().as_bytes())?;
    let (terminal, own) = (order.terminal, rustix::process::getpid().as_raw_nonzero().get());
    // SAFETY: the closure makes only system calls, on values that were made before the fork.
    unsafe {
        command.pre_exec(move || view.enter(&cwd, terminal, own));
    }
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    Ok(Begun { pid, container, kubelet })
}

/// Watches over the command until nothing below the escort is left.
struct Watch<'a> {
    begun: Begun,
    signals: Signals,
    /// `None` after the command's end was told.
    connection: Option<UnixStream>,
    /// Readable when the cluster is gone.
    cluster: Option<BorrowedFd<'a>>,
    /// Everything is being killed.
    ending: bool,
}

impl Watch<'_> {
    fn run(mut self) -> io::Result<()> {
        loop {
            if self.wait()? {
                self.ending = true;
            }
            if !self.reap()? {
                return Ok(());
            }
        }
    }

    /// Waits for something to do; true when everything has to end.
    fn wait(&mut self) -> io::Result<bool> {
        if self.ending {
            let again = Timespec { tv_sec: 0, tv_nsec: i64::from(REAP_AGAIN.subsec_nanos()) };
            let mut fds = [PollFd::new(self.signals.as_file(), PollFlags::IN)];
            wait_for(&mut fds, Some(&again))?;
            self.signals.take()?;
            return Ok(true);
        }
        let mut fds = vec![
            PollFd::new(self.signals.as_file(), PollFlags::IN),
            PollFd::new(&self.begun.container, PollFlags::IN),
            PollFd::new(&self.begun.kubelet, PollFlags::IN),
        ];
        // Nobody writes to these after the order: readable means their end.
        fds.extend(self.connection.as_ref().map(|end| PollFd::new(end, PollFlags::IN | PollFlags::RDHUP)));
        fds.extend(self.cluster.map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN | PollFlags::RDHUP)));
        wait_for(&mut fds, None)?;
        let over = fds[1..].iter().any(|fd| !fd.revents().is_empty());
        drop(fds);
        Ok(self.signals.take()?.iter().any(|signal| *signal != libc::SIGCHLD) || over)
    }

    /// Reaps what has ended, and kills what is left if it has to end; false when nothing is left.
    fn reap(&mut self) -> io::Result<bool> {
        loop {
            match sys::reap()? {
                Reaped::Child(pid, status) if pid == self.begun.pid => self.ended(status),
                Reaped::Child(..) => {}
                Reaped::NoChildren => return Ok(false),
                Reaped::NoneYet => {
                    if self.ending {
                        sys::kill_children()?;
                    }
                    return Ok(true);
                }
            }
        }
    }

    /// The command has ended. What it leaves running belongs to the container from now on.
    fn ended(&mut self, status: WaitStatus) {
        let signal = status.terminating_signal();
        let code = signal.map_or_else(|| status.exit_status().unwrap_or(255), |signal| 128 + signal);
        if let Some(mut connection) = self.connection.take() {
            tell(&mut connection, &Told::Ended { code });
        }
    }
}

fn wait_for(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<()> {
    match poll(fds, timeout) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
