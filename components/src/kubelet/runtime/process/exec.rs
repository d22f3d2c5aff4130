//! A command beside a running container: with its environment, in its directory, with its view of the machine.
//!
//! Invariant: the command is killed, with its whole group, when nobody waits for it any more.

use std::{
    ffi::CString,
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    process::{ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe,
    process::{Child, Command},
};

use super::{super::seam::ExecOutput, attempt::Attempt, lifeline};

/// How much of a command's output is kept, in bytes (Kubernetes: exec probes).
const OUTPUT_BYTES_MAX: usize = 10 * 1024;

/// Kills the group of a command when it goes.
pub(super) struct Group(Option<Pid>);

impl Group {
    /// The group of a child that leads one.
    pub(super) fn of(child: &Child) -> Self {
        Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// It has ended: its number may be somebody else's from now on.
    pub(super) fn ended(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs the command to its end. Dropping the future kills it.
pub(super) async fn run(attempt: &Attempt, words: &[String]) -> io::Result<ExecOutput> {
    let (reader, writer) = io::pipe()?;
    let mut command = beside(attempt, words, false)?;
    command.stdin(Stdio::null()).stdout(Stdio::from(writer.try_clone()?)).stderr(Stdio::from(writer));
    let mut child = command.spawn()?;
    drop(command);
    let mut group = Group::of(&child);
    let mut output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let mut text = Vec::new();
    let status = loop {
        let mut buffer = [0u8; 4096];
        tokio::select! {
            biased;
            read = output.read(&mut buffer) => match read {
                Ok(0) | Err(_) => break child.wait().await?,
                Ok(n) => {
                    let room = OUTPUT_BYTES_MAX - text.len();
                    text.extend_from_slice(&buffer[..n.min(room)]);
                }
            },
            // What it has left running does not hold the answer up.
            status = child.wait() => break status?,
        }
    };
    group.ended();
    Ok(ExecOutput { code: code(status), text: String::from_utf8_lossy(&text).into_owned() })
}

/// The command in the container's place, without its inputs and outputs. It leads a group of its own; `terminal`: what
/// it gets as standard input is its terminal.
pub(super) fn beside(attempt: &Attempt, words: &[String], terminal: bool) -> io::Result<Command> {
    let gone = || io::Error::new(io::ErrorKind::NotFound, "the container does not run");
    let started = attempt.started.as_ref().ok_or_else(gone)?;
    let (program, args) = words.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
    let view = View::of(started.process.pid)?;
    // Opened first, looked at after: what was opened belongs to the process that is meant.
    if !started.process.is_alive()? {
        return Err(gone());
    }
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(attempt.spec.env.iter().map(|(key, value)| (key, value)));
    let cwd = CString::new(attempt.spec.cwd.as_os_str().as_bytes())?;
    // SAFETY: the closure makes only system calls, on values that were made before the fork.
    unsafe {
        command.pre_exec(move || {
            view.enter(&cwd)?;
            if terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    Ok(command)
}

/// The exit code; 128 + signal for a command that was killed.
pub(super) fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// The namespaces and the root of a process, where they are not ours.
struct View {
    user: Option<File>,
    mounts: Option<File>,
    root: Option<File>,
    /// Not for commands: who holds it is waited for at the end of the cluster.
    lifeline: Option<RawFd>,
}

impl View {
    fn of(pid: i32) -> io::Result<Self> {
        let other = |name: &str| -> io::Result<Option<File>> {
            let path = format!("/proc/{pid}/ns/{name}");
            if fs::read_link(&path)? == fs::read_link(format!("/proc/self/ns/{name}"))? {
                return Ok(None);
            }
            File::open(path).map(Some)
        };
        let mounts = other("mnt")?;
        let root = mounts.as_ref().map(|_| File::open(format!("/proc/{pid}/root"))).transpose()?;
        Ok(View { user: other("user")?, mounts, root, lifeline: lifeline::fd() })
    }

    /// Goes there, in a session of its own, to die with the kubelet.
    fn enter(&self, cwd: &CString) -> io::Result<()> {
        let check = |outcome: i32| if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        let fd = |file: &Option<File>| -> Option<RawFd> { file.as_ref().map(AsRawFd::as_raw_fd) };
        rustix::process::setsid()?;
        // SAFETY: plain system calls on open descriptors and strings that end with a zero.
        unsafe {
            if let Some(user) = fd(&self.user) {
                check(libc::setns(user, libc::CLONE_NEWUSER))?;
            }
            if let Some(mounts) = fd(&self.mounts) {
                check(libc::setns(mounts, libc::CLONE_NEWNS))?;
            }
            if let Some(root) = fd(&self.root) {
                check(libc::fchdir(root))?;
                check(libc::chroot(c".".as_ptr()))?;
            }
            if let Some(lifeline) = self.lifeline {
                // A number that is not open needs no closing.
                libc::fcntl(lifeline, libc::F_SETFD, libc::FD_CLOEXEC);
            }
            check(libc::chdir(cwd.as_ptr()))?;
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))
        }
    }
}
