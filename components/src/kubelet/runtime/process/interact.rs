//! A command beside a running container that somebody follows while it runs: with pipes, or in a terminal.
//!
//! Invariant: the command is killed, with all that it started, when nobody follows it any more.

use std::{
    fs::File,
    io::{self, PipeReader, PipeWriter},
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
use listwatch_proto::go_quote::quote;
use rustix::{
    fs::OFlags,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd},
    net::unix::pipe,
};

use super::{
    super::seam::{Input, Interaction, Output, Process, Session},
    attempt::Attempt,
    escort::Escort,
    launch::Shim,
};

/// What programs in a terminal believe it to be, unless the container says otherwise (as container runtimes do).
const TERM: (&str, &str) = ("TERM", "xterm");

/// Starts it. Must be called within a tokio runtime.
pub(super) async fn start(shim: &Shim, attempt: &Attempt, asked: &Interaction) -> io::Result<Session> {
    let session =
        if asked.tty { in_terminal(shim, attempt, asked).await } else { with_pipes(shim, attempt, asked).await };
    session.map_err(|error| {
        let program = asked.command.first().map_or("", String::as_str);
        match error.kind() {
            io::ErrorKind::NotFound if !program.contains('/') => {
                io::Error::new(error.kind(), format!("exec: {}: executable file not found in $PATH", quote(&program)))
            }
            _ => io::Error::new(error.kind(), format!("exec: {program}: {error}", program = quote(&program))),
        }
    })
}

async fn with_pipes(shim: &Shim, attempt: &Attempt, asked: &Interaction) -> io::Result<Session> {
    let ends = |wanted: bool| -> io::Result<_> { if wanted { io::pipe().map(Some) } else { Ok(None) } };
    let (stdin, stdout, stderr) = (ends(asked.stdin)?, ends(asked.stdout)?, ends(asked.stderr)?);
    let input = |end: Option<PipeReader>| end.map_or_else(Stdio::null, Stdio::from);
    let output = |end: Option<PipeWriter>| end.map_or_else(Stdio::null, Stdio::from);
    let (in_theirs, in_ours) = stdin.unzip();
    let (out_ours, out_theirs) = stdout.unzip();
    let (err_ours, err_theirs) = stderr.unzip();
    let escort = Escort::start(shim, attempt, &asked.command, None, |command| {
        command.stdin(input(in_theirs)).stdout(output(out_theirs)).stderr(output(err_theirs));
        Ok(())
    })
    .await?;
    let read = |end: Option<PipeReader>| -> io::Result<Option<Output>> {
        end.map(|end| Ok(Box::new(pipe::Receiver::from_owned_fd(end.into())?) as Output)).transpose()
    };
    Ok(Session {
        stdin: in_ours
            .map(|end| io::Result::Ok(Box::new(pipe::Sender::from_owned_fd(end.into())?) as Input))
            .transpose()?,
        stdout: read(out_ours)?,
        stderr: read(err_ours)?,
        process: Box::new(Running { escort, terminal: None }),
    })
}

async fn in_terminal(shim: &Shim, attempt: &Attempt, asked: &Interaction) -> io::Result<Session> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(Path::new(std::ffi::OsStr::from_bytes(name.as_bytes())))?;
    // With the escort's start our last copies of the slave go, so that reading ends with the last process in the terminal.
    let escort = Escort::start(shim, attempt, &asked.command, Some(TERM), |command| {
        command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
        Ok(())
    })
    .await?;
    let terminal = Terminal::new(master)?;
    Ok(Session {
        stdin: asked.stdin.then(|| Box::new(terminal.clone()) as Input),
        stdout: asked.stdout.then(|| Box::new(terminal.clone()) as Output),
        stderr: None,
        process: Box::new(Running { escort, terminal: Some(terminal) }),
    })
}

/// A command that was started.
struct Running {
    escort: Escort,
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
        self.escort.wait().await
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
