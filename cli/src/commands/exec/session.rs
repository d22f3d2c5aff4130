//! The streams between here and a container, until what runs there ends.

use std::io::{self, Write};
use std::process::ExitCode;

use bytes::Bytes;
use listwatch_components::client::Client;
use listwatch_components::client::channels::{COMMAND, ChannelWriter, ENDED, RESIZE, STDERR, STDIN, STDOUT};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::keyboard::{self, Raw};
use crate::commands::failure::Failure;
use crate::terminal::tell;

/// What is joined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streams {
    pub(super) stdin: bool,
    pub(super) tty: bool,
}

impl Streams {
    /// A terminal needs standard input, and needs it to be one.
    pub(super) fn settled(mut self, quiet: bool) -> Streams {
        self.tty &= self.stdin;
        if self.tty && !keyboard::is_terminal() {
            if !quiet {
                tell!("Unable to use a TTY - input is not a terminal or the right kind of file");
            }
            self.tty = false;
        }
        self
    }

    /// The same for the query of a path.
    pub(super) fn query(self) -> Vec<(&'static str, &'static str)> {
        let flag = |on: bool| if on { "true" } else { "false" };
        vec![
            ("stdin", flag(self.stdin)),
            ("stdout", "true"),
            // A terminal has one stream for both.
            ("stderr", flag(!self.tty)),
            ("tty", flag(self.tty)),
        ]
    }

    /// Joins the streams at this path until the other end is done; gives its exit code.
    pub(super) async fn join(self, client: &Client, path: &str) -> Result<ExitCode, Failure> {
        let (mut writer, mut reader) = client.channels(path, COMMAND).await?;
        let raw = if self.tty { Some(Raw::begin()?) } else { None };
        let mut pieces = self.stdin.then(keyboard::pieces);
        let mut resized = signal(SignalKind::window_change())?;
        if self.tty {
            send_size(&mut writer).await;
        }
        let ended = loop {
            tokio::select! {
                message = reader.next() => match message? {
                    None => break None,
                    Some((STDOUT, bytes)) => show(&mut io::stdout().lock(), &bytes)?,
                    Some((STDERR, bytes)) => show(&mut io::stderr().lock(), &bytes)?,
                    Some((ENDED, status)) => break Some(status),
                    Some(_) => {}
                },
                piece = next(&mut pieces) => match piece {
                    Some(bytes) => writer.send(STDIN, &bytes).await?,
                    None => {
                        pieces = None;
                        writer.end(STDIN).await?;
                    }
                },
                Some(()) = resized.recv(), if self.tty => send_size(&mut writer).await,
            }
        };
        drop(raw);
        writer.close().await;
        outcome(ended)
    }
}

/// The next piece; never, if there are none any more.
async fn next(pieces: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match pieces {
        Some(pieces) => pieces.recv().await,
        None => std::future::pending().await,
    }
}

/// The bytes as they are: they are the program's own, and meant for this terminal.
fn show(out: &mut dyn Write, bytes: &[u8]) -> Result<(), Failure> {
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

async fn send_size(writer: &mut ChannelWriter) {
    if let Some(size) = keyboard::size() {
        // A connection that is gone shows where it is read.
        drop(writer.send(RESIZE, size.as_bytes()).await);
    }
}

/// What the last message says: success, an exit code, or why it could not be done.
fn outcome(status: Option<Bytes>) -> Result<ExitCode, Failure> {
    let Some(status) = status else { return Ok(ExitCode::SUCCESS) };
    let status: Value = serde_json::from_slice(&status)
        .map_err(|error| Failure::plain(format!("error stream protocol error: {error}")))?;
    if status["status"] == "Success" {
        return Ok(ExitCode::SUCCESS);
    }
    if status["reason"] == "NonZeroExitCode" {
        let causes = status["details"]["causes"].as_array().into_iter().flatten();
        let code = causes.filter(|cause| cause["reason"] == "ExitCode").find_map(|cause| cause["message"].as_str());
        let code = code.and_then(|code| code.parse::<u8>().ok()).unwrap_or(1);
        tell!("command terminated with exit code {code}");
        return Ok(ExitCode::from(code));
    }
    Err(Failure::plain(status["message"].as_str().unwrap_or("the command could not be run").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_message_tells_how_it_ended() {
        let told = |status: Value| outcome(Some(Bytes::from(status.to_string())));
        assert_eq!(told(json!({"status": "Success"})).expect("done"), ExitCode::SUCCESS);
        let causes = json!([{"reason": "ExitCode", "message": "7"}]);
        let failed = json!({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}});
        assert_eq!(told(failed).expect("ended"), ExitCode::from(7));
        let error = told(json!({"status": "Failure", "message": "no such container"})).expect_err("failed");
        assert_eq!(error.text(), "error: no such container");
        assert_eq!(outcome(None).expect("the connection has ended"), ExitCode::SUCCESS);
    }

    #[test]
    fn a_terminal_has_one_stream_for_both_outputs() {
        let query = |stdin: bool, tty: bool| Streams { stdin, tty }.query();
        assert!(query(true, true).contains(&("stderr", "false")));
        assert!(query(false, false).contains(&("stderr", "true")));
        assert!(!Streams { stdin: false, tty: true }.settled(true).tty, "without standard input there is none");
    }
}
