//! Sends a log: what is there, and what comes, until the container ends or the client has enough.
//!
//! Invariant: whether the container has ended is asked before the last read, so nothing it wrote is missed.

use std::{
    io::{self, SeekFrom},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use rustix::fs::inotify;
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt, unix::AsyncFd},
    sync::{mpsc, watch},
};

use super::{super::runtime::process::cri_log, channels, query::LogQuery, tail};

/// How much is read and sent at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// How many chunks may wait for a slow client; the next read waits with it.
pub(super) const CHUNKS_WAITING: usize = 4;

/// What a stream needs to know of the container.
pub(super) struct Source {
    /// The newest file of the log.
    pub(super) path: PathBuf,
    /// Moves with each change of the pod's containers.
    pub(super) changes: watch::Receiver<u64>,
    /// Whether the run whose log this is has ended.
    pub(super) ended: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Sends the log into the channel. An error of the disk ends the stream.
pub(super) async fn send(
    mut source: Source,
    query: LogQuery,
    now: Timestamp,
    out: mpsc::Sender<Bytes>,
) -> io::Result<()> {
    let path = source.path.clone();
    let tail_lines = query.tail_lines;
    let begin = move || tail::start(cri_log::files(&path), tail_lines);
    let (files, offset) = tokio::task::spawn_blocking(begin).await.map_err(io::Error::other)??;
    // Before the first read, so that what is written after it is noticed.
    let watch = if query.follow { Some(Watch::new(&source.path)?) } else { None };
    let since = query.since_seconds.and_then(|seconds| {
        let seconds = SignedDuration::from_secs(i64::try_from(seconds).ok()?);
        now.checked_sub(seconds).ok()
    });
    let (timestamps, channels) = (query.timestamps, query.channels);
    let mut sender = Sender { out, since, timestamps, channels, left: query.limit_bytes, partial: Vec::new() };
    let mut file = None;
    for (number, path) in files.iter().enumerate() {
        let mut opened = match File::open(path).await {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if number == 0 {
            opened.seek(SeekFrom::Start(offset)).await?;
        }
        if !sender.copy(&mut opened).await? {
            return Ok(());
        }
        file = Some(opened);
    }
    let Some(watch) = watch else { return Ok(()) };
    loop {
        let ended = (source.ended)();
        source.changes.mark_unchanged();
        if let Some(file) = &mut file
            && !sender.copy(file).await?
        {
            return Ok(());
        }
        if let Some(next) = rotated(file.as_ref(), &source.path).await? {
            file = Some(next);
            continue;
        }
        if ended {
            return Ok(());
        }
        tokio::select! {
            changed = source.changes.changed() => if changed.is_err() { return Ok(()) },
            written = watch.wait() => written?,
            () = sender.out.closed() => return Ok(()),
        }
    }
}

/// The file after the one being read, if the log has been cut there since.
async fn rotated(reading: Option<&File>, path: &Path) -> io::Result<Option<File>> {
    let inode = match reading {
        Some(file) => Some(file.metadata().await?.ino()),
        None => None,
    };
    let mut next = None;
    // From the newest back to the one being read; one that is gone already has left its place to an older one.
    for path in cri_log::files(path).iter().rev() {
        let file = match File::open(path).await {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if Some(file.metadata().await?.ino()) == inode {
            return Ok(next);
        }
        next = Some(file);
    }
    Ok(next)
}

struct Sender {
    out: mpsc::Sender<Bytes>,
    since: Option<Timestamp>,
    timestamps: bool,
    /// Pieces go out by channel, and only those of these outputs.
    channels: Option<(bool, bool)>,
    left: Option<u64>,
    /// An entry whose end is not written yet.
    partial: Vec<u8>,
}

impl Sender {
    /// Sends what the file has from here on; false when nothing more is wanted.
    async fn copy(&mut self, file: &mut File) -> io::Result<bool> {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let n = file.read(&mut buffer).await?;
            if n == 0 {
                return Ok(true);
            }
            if let Some(wanted) = self.channels {
                for piece in self.pieces(&buffer[..n], wanted) {
                    if self.out.send(piece).await.is_err() {
                        return Ok(false);
                    }
                }
                continue;
            }
            let mut chunk = self.text(&buffer[..n]);
            let enough = self.left.is_some_and(|left| chunk.len() as u64 >= left);
            if let Some(left) = &mut self.left {
                chunk.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= chunk.len() as u64;
            }
            if !chunk.is_empty() && self.out.send(Bytes::from(chunk)).await.is_err() {
                return Ok(false);
            }
            if enough {
                return Ok(false);
            }
        }
    }

    /// The output that these bytes of the file stand for, each entry with its channel in front.
    fn pieces(&mut self, bytes: &[u8], (stdout, stderr): (bool, bool)) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            if let Some(entry) = cri_log::parse(&self.partial) {
                let (channel, wanted) =
                    if entry.stdout { (channels::STDOUT, stdout) } else { (channels::STDERR, stderr) };
                if wanted {
                    let line_end: &[u8] = if entry.full { b"\n" } else { b"" };
                    pieces.push(channels::message(channel, &[entry.text, line_end].concat()));
                }
            }
            self.partial.clear();
        }
        self.partial.extend_from_slice(rest);
        pieces
    }

    /// The output that these bytes of the file stand for.
    fn text(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            if let Some(entry) = cri_log::parse(&self.partial)
                && self.since.is_none_or(|since| entry.time.parse::<Timestamp>().is_ok_and(|time| time >= since))
            {
                if self.timestamps {
                    out.extend_from_slice(entry.time.as_bytes());
                    out.push(b' ');
                }
                out.extend_from_slice(entry.text);
                if entry.full {
                    out.push(b'\n');
                }
            }
            self.partial.clear();
        }
        self.partial.extend_from_slice(rest);
        out
    }
}

/// Notices what happens in the directory of a log.
struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    fn new(log: &Path) -> io::Result<Self> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let dir = log.parent().unwrap_or(log);
        inotify::add_watch(
            &fd,
            dir,
            inotify::WatchFlags::MODIFY | inotify::WatchFlags::MOVE | inotify::WatchFlags::CREATE,
        )?;
        // SAFETY: the registration owns the descriptor, so it stays open and the same.
        let fd = unsafe { AsyncFd::register_with_interest(fd, tokio::io::Interest::READABLE) }?;
        Ok(Watch(fd))
    }

    /// Waits for anything. Cancel safe.
    async fn wait(&self) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        // What it was does not matter: the files say it all.
        let mut buffer = [0u8; 4096];
        loop {
            match rustix::io::read(self.0.get_ref(), &mut buffer) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        ready.clear_ready();
        Ok(())
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
