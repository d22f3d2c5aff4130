//! A command beside a running container that somebody follows while it runs: with pipes, or in a terminal.
//!
//! Invariant: the command is killed, with its whole group, when nobody follows it any more.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::Path,
    pin::Pin,
    process::Stdio,
    sync::Arc,
    task::{Context, Poll, ready},
};

use async_trait::async_trait;
use rustix::{
    fs::OFlags,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd},
    process::Child,
};

use super::{
    super::seam::{Input, Interaction, Output, Process, Session},
    attempt::Attempt,
    exec::{self, Group},
};

/// What programs in a terminal believe it to be, unless the container says otherwise (as container runtimes do).
const TERM: (&str, &str) = ("TERM", "xterm");

/// Starts it. Must be called within a tokio runtime.
pub(super) fn start(attempt: &Attempt, asked: &Interaction) -> io::Result<Session> {
    let session = if asked.tty { in_terminal(attempt, asked) } else { with_pipes(attempt, asked) };
    session.map_err(|error| {
        let program = asked.command.first().map_or("", String::as_str);
        match error.kind() {
            io::ErrorKind::NotFound if !program.contains('/') => {
                io::Error::new(error.kind(), format!("exec: {program:?}: executable file not found in $PATH"))
            }
            _ => io::Error::new(error.kind(), format!("exec: {program:?}: {error}")),
        }
    })
}

fn with_pipes(attempt: &Attempt, asked: &Interaction) -> io::Result<Session> {
    let mut command = exec::beside(attempt, &asked.command, false)?;
    let pipe = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
    command.stdin(pipe(asked.stdin)).stdout(pipe(asked.stdout)).stderr(pipe(asked.stderr));
    let mut child = command.spawn()?;
    Ok(Session {
        stdin: child.stdin.take().map(|pipe| Box::new(pipe) as Input),
        stdout: child.stdout.take().map(|pipe| Box::new(pipe) as Output),
        stderr: child.stderr.take().map(|pipe| Box::new(pipe) as Output),
        process: Box::new(Running { group: Group::of(&child), child, terminal: None }),
    })
}

fn in_terminal(attempt: &Attempt, asked: &Interaction) -> io::Result<Session> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(Path::new(std::ffi::OsStr::from_bytes(name.as_bytes())))?;
    let mut command = exec::beside(attempt, &asked.command, true)?;
    if attempt.spec.env.iter().all(|(name, _)| name != TERM.0) {
        command.env(TERM.0, TERM.1);
    }
    command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    let child = command.spawn()?;
    // With the command our last copies of the slave go, so that reading ends with the last process in the terminal.
    drop(command);
    let terminal = Terminal::new(master)?;
    Ok(Session {
        stdin: asked.stdin.then(|| Box::new(terminal.clone()) as Input),
        stdout: asked.stdout.then(|| Box::new(terminal.clone()) as Output),
        stderr: None,
        process: Box::new(Running { group: Group::of(&child), child, terminal: Some(terminal) }),
    })
}

/// A command that was started.
struct Running {
    child: Child,
    group: Group,
    terminal: Option<Terminal>,
}

#[async_trait]
impl Process for Running {
    fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let Some(terminal) = &self.terminal else { return Ok(()) };
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(terminal.0.get_ref().as_fd(), size)?;
        Ok(())
    }

    async fn wait(&mut self) -> io::Result<i32> {
        let status = self.child.wait().await?;
        self.group.ended();
        Ok(exec::code(status))
    }
}

/// Our side of a terminal, to be read and written at the same time.
#[derive(Debug, Clone)]
struct Terminal(Arc<AsyncFd<OwnedFd>>);

impl Terminal {
    fn new(master: OwnedFd) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&master)?;
        rustix::fs::fcntl_setfl(&master, flags | OFlags::NONBLOCK)?;
        // SAFETY: the registration owns the descriptor, so it stays open and the same.
        let fd = unsafe { AsyncFd::register_with_interest(master, Interest::READABLE | Interest::WRITABLE) };
        Ok(Terminal(Arc::new(fd.map_err(io::Error::from)?)))
    }
}

impl AsyncRead for Terminal {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            let read = guard.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), buf.initialize_unfilled())?));
            match read {
                Ok(Ok(n)) => {
                    buf.advance(n);
                    return Poll::Ready(Ok(()));
                }
                // Nobody has the other side open any more: that is how a terminal ends.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Poll::Ready(Ok(())),
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Terminal {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(cx))?;
            if let Ok(written) = guard.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// A terminal has no end of input of its own; who wants one types it.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
