//! A command beside a running container that is run to its end: probes and hooks.
//!
//! Invariant: the command is killed, with all that it started, when nobody waits for it any more.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
    process::Stdio,
};

use tokio::{io::AsyncReadExt, net::unix::pipe};

use super::{super::seam::ExecOutput, attempt::Attempt, escort::Escort, launch::Shim};

/// How much of a command's output is kept, in bytes (Kubernetes: exec probes).
const OUTPUT_BYTES_MAX: usize = 10 * 1024;

/// Runs the command to its end. Dropping the future kills it.
pub(super) async fn run(shim: &Shim, attempt: &Attempt, words: &[String]) -> io::Result<ExecOutput> {
    let (reader, writer) = io::pipe()?;
    let mut escort = Escort::start(shim, attempt, words, None, |command| {
        command.stdin(Stdio::null()).stdout(Stdio::from(writer.try_clone()?)).stderr(Stdio::from(writer));
        Ok(())
    })
    .await?;
    let mut output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let mut text = Vec::new();
    let mut buffer = [0u8; 4096];
    let code = loop {
        tokio::select! {
            biased;
            read = output.read(&mut buffer) => match read {
                Ok(0) | Err(_) => break escort.wait().await?,
                Ok(n) => keep(&mut text, &buffer[..n]),
            },
            // What it has left running does not hold the answer up.
            code = escort.wait() => break code?,
        }
    };
    // The end may be heard of before the last output is.
    let mut rest = File::from(output.into_nonblocking_fd()?);
    while let Ok(n @ 1..) = rest.read(&mut buffer)
        && text.len() < OUTPUT_BYTES_MAX
    {
        keep(&mut text, &buffer[..n]);
    }
    Ok(ExecOutput { code, text: String::from_utf8_lossy(&text).into_owned() })
}

fn keep(text: &mut Vec<u8>, read: &[u8]) {
    let room = OUTPUT_BYTES_MAX - text.len();
    text.extend_from_slice(&read[..read.len().min(room)]);
}
