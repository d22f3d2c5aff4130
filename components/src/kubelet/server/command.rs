//! A command beside a container, or the container's own output, over a WebSocket.
//!
//! Invariants: a command whose client goes works off what it was given, for a limited time, then it is killed (one in a
//! terminal at once: the line is hung up); every byte that it has written goes out before its end is told; no more waits
//! for a slow client than a few messages.

use std::{future::Future, io, pin::pin, time::Duration};

use bytes::Bytes;
use futures::{
    SinkExt, StreamExt,
    future::join,
    stream::{SplitSink, SplitStream},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, watch},
};
use tokio_tungstenite::tungstenite::{
    Message, Utf8Bytes,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use super::{
    super::runtime::seam::{Input, Output, Process, Session},
    channels::{self, Said},
    upgrade::Socket,
};
use crate::clock::timer_now;

/// How much output is sent at once.
const CHUNK_BYTES: usize = 32 * 1024;

/// How many messages may wait for a slow client; the command waits with them.
const MESSAGES_WAITING: usize = 8;

/// How long an output may be silent after the command has ended: what it left running holds it open.
const SILENCE_MAX: Duration = Duration::from_millis(200);

/// How long a client may take to read the last messages.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a command may work on without its client: those that send something and go (`tar x` with an archive that is
/// sent in one piece) count on it, and container runtimes let commands run on. No longer, so that nothing is left behind.
const AFTERLIFE: Duration = Duration::from_secs(30);

/// How a client deals with a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ways {
    /// The client can end standard input by itself.
    pub(super) closes_input: bool,
    /// The command is in a terminal.
    pub(super) terminal: bool,
}

/// Lets a client follow a command to its end.
pub(super) async fn follow(socket: Socket, outcome: io::Result<Session>, ways: Ways) {
    let (sink, mut from_client) = socket.split();
    let stream = &mut from_client;
    let (out, queue) = mpsc::channel(MESSAGES_WAITING);
    let sending = send(sink, queue);
    let working = async move {
        let Session { stdin, stdout, stderr, mut process } = match outcome {
            Ok(session) => session,
            Err(error) => {
                let _ = out.send(channels::failed(&error.to_string())).await;
                return;
            }
        };
        let (input, queued) = mpsc::channel(MESSAGES_WAITING);
        let (size, mut sizes) = watch::channel((0, 0));
        let reading = read(stream, (stdin.is_some(), ways.closes_input), input, size);
        let writing = write(stdin, queued);
        let (over, ended) = watch::channel(false);
        // So that a client knows that it is connected before there is any output.
        let first = if stdout.is_some() { channels::STDOUT } else { channels::STDERR };
        let _ = out.send(channels::message(first, &[])).await;
        let outputs = join(
            pump(channels::STDOUT, stdout, out.clone(), ended.clone()),
            pump(channels::STDERR, stderr, out.clone(), ended),
        );
        let (mut reading, mut writing, mut outputs) = (pin!(reading), pin!(writing), pin!(outputs));
        let (mut written, mut read_out, mut resizes, mut gone) = (false, false, true, false);
        let mut afterlife = pin!(tokio::time::sleep(AFTERLIFE));
        let code = loop {
            let left = tokio::select! {
                code = process.wait() => break code,
                // What is on its way to standard input still gets there, then it ends.
                () = &mut reading, if !gone => true,
                () = out.closed(), if !gone => true,
                () = &mut afterlife, if gone => return,
                () = &mut writing, if !written => { written = true; false }
                _ = &mut outputs, if !read_out => { read_out = true; false }
                changed = sizes.changed(), if resizes => {
                    match changed {
                        Ok(()) => resize(process.as_ref(), *sizes.borrow_and_update()),
                        Err(_) => resizes = false,
                    }
                    false
                }
            };
            if left && ways.terminal {
                return;
            }
            if left {
                gone = true;
                afterlife.as_mut().reset(timer_now() + AFTERLIFE);
            }
        };
        over.send_replace(true);
        if gone {
            return;
        }
        if !read_out {
            tokio::select! {
                _ = outputs => {}
                () = reading => return,
            }
        }
        let last = match code {
            Ok(code) => channels::ended(code),
            Err(error) => channels::failed(&error.to_string()),
        };
        let _ = out.send(last).await;
    };
    both(working, sending).await;
    goodbye(&mut from_client).await;
}

/// Lets a client read messages that are made elsewhere, each with its channel, until there are no more.
pub(super) async fn show(socket: Socket, mut messages: mpsc::Receiver<Bytes>) {
    let (sink, mut from_client) = socket.split();
    let stream = &mut from_client;
    let (out, queue) = mpsc::channel(MESSAGES_WAITING);
    let working = async move {
        let copying = async {
            let _ = out.send(channels::message(channels::STDOUT, &[])).await;
            while let Some(message) = messages.recv().await {
                if out.send(message).await.is_err() {
                    return;
                }
            }
            let _ = out.send(channels::ended(0)).await;
        };
        let gone = async { while let Some(Ok(_)) = stream.next().await {} };
        tokio::select! {
            () = copying => {}
            () = gone => {}
        }
    };
    both(working, send(sink, queue)).await;
    goodbye(&mut from_client).await;
}

/// Waits until the client has closed its side too: a connection that is dropped with something unread is reset, and the
/// client may then lose what it has not read yet.
async fn goodbye(stream: &mut SplitStream<Socket>) {
    let closed = async { while let Some(Ok(_)) = stream.next().await {} };
    if tokio::time::timeout(PATIENCE, closed).await.is_err() {
        tracing::debug!("a client did not close its WebSocket");
    }
}

/// The work, and the sending until its last message is out, or the client has had its time.
async fn both(working: impl Future<Output = ()>, sending: impl Future<Output = ()>) {
    let (mut working, mut sending) = (pin!(working), pin!(sending));
    tokio::select! {
        () = &mut working => {}
        // The client takes nothing any more, which the work notices.
        () = &mut sending => return working.await,
    }
    if tokio::time::timeout(PATIENCE, sending).await.is_err() {
        tracing::debug!("a client did not read the end of a command");
    }
}

fn resize(process: &dyn Process, (columns, rows): (u16, u16)) {
    if let Err(error) = process.resize(columns, rows) {
        tracing::debug!(%error, "a terminal keeps its size");
    }
}

/// Sends what waits, then says goodbye.
async fn send(mut sink: SplitSink<Socket, Message>, mut queue: mpsc::Receiver<Bytes>) {
    while let Some(message) = queue.recv().await {
        if sink.send(Message::Binary(message)).await.is_err() {
            return;
        }
    }
    // Without a code clients take the end for a failure.
    let goodbye = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
    let _ = sink.send(Message::Close(Some(goodbye))).await;
}

/// Reads what the client says until it goes.
async fn read(
    stream: &mut (impl StreamExt<Item = Result<Message, tokio_tungstenite::tungstenite::Error>> + Unpin),
    (takes_input, closes): (bool, bool),
    input: mpsc::Sender<Bytes>,
    size: watch::Sender<(u16, u16)>,
) {
    let mut input = Some(input).filter(|_| takes_input);
    while let Some(Ok(message)) = stream.next().await {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => Bytes::from(text),
            Message::Close(_) => return,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        match channels::read(bytes, closes) {
            Said::Input(bytes) => {
                if let Some(open) = &input
                    && open.send(bytes).await.is_err()
                {
                    // The command takes none any more; it may still have something to say.
                    input = None;
                }
            }
            Said::InputEnds => input = None,
            Said::Resize(columns, rows) => drop(size.send_replace((columns, rows))),
            Said::Nothing => {}
        }
    }
}

/// Writes what comes to standard input, and closes it after the last.
async fn write(stdin: Option<Input>, mut input: mpsc::Receiver<Bytes>) {
    let Some(mut stdin) = stdin else { return };
    while let Some(bytes) = input.recv().await {
        if stdin.write_all(&bytes).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
    let _ = stdin.shutdown().await;
}

/// Sends an output to its end, or until it is silent after the command's. What a client that has gone would have got is
/// read all the same, so that the command is not held up.
async fn pump(channel: u8, output: Option<Output>, out: mpsc::Sender<Bytes>, mut ended: watch::Receiver<bool>) {
    let Some(mut output) = output else { return };
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let read = tokio::select! {
            biased;
            read = output.read(&mut buffer) => read,
            () = silence(&mut ended) => return,
        };
        match read {
            Ok(0) | Err(_) => return,
            Ok(n) => {
                // Refused means that the client has gone.
                let _ = out.send(channels::message(channel, &buffer[..n])).await;
            }
        }
    }
}

async fn silence(ended: &mut watch::Receiver<bool>) {
    // Its sender lives as long as the command is followed.
    if ended.wait_for(|ended| *ended).await.is_err() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(SILENCE_MAX).await;
}
