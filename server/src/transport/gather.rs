//! Writing together what a connection has to say at one time.
//!
//! HTTP/2 flushes after each frame of some size; with TLS below, each flush is a record or two of its own and a call to
//! the system. Here a flush only takes note: the bytes go out when the connection's task has nothing more to do for now,
//! or when there are enough of them. That is the same moment for the client, who cannot have asked for more in between.
//!
//! Invariants: nothing waits here while the task sleeps, but for room in the socket; what is not HTTP/2 (and may be taken
//! over by another task) passes unchanged; an idle connection holds no more than [`KEPT_BYTES_MAX`].

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Bytes that are gathered at most: four TLS records, as much as is encrypted in one go.
const GATHERED_BYTES_MAX: usize = 64 << 10;
/// Room that is kept while there is nothing to write.
const KEPT_BYTES_MAX: usize = 2 << 10;
/// What a client of HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream whose writes are gathered.
#[derive(Debug)]
pub(super) struct Gathered<S> {
    shared: Arc<Mutex<Shared<S>>>,
}

/// The other hold on a [`Gathered`]: it writes out what was gathered.
#[derive(Debug)]
pub(super) struct Gatherer<S> {
    shared: Arc<Mutex<Shared<S>>>,
    patience: Duration,
}

/// The lock is only ever taken by the one task of the connection, so that nobody waits for it.
#[derive(Debug)]
struct Shared<S> {
    stream: S,
    out: BytesMut,
    /// So much of the preface has been seen.
    seen: usize,
    /// `None` until the client has said enough to tell.
    gathers: Option<bool>,
    /// The writer has been told to wait.
    held_up: bool,
}

/// A stream that gathers, and what empties it. The client has so long to say what it speaks.
pub(super) fn gather<S>(stream: S, patience: Duration) -> (Gathered<S>, Gatherer<S>) {
    let shared = Shared { stream, out: BytesMut::new(), seen: 0, gathers: None, held_up: false };
    let shared = Arc::new(Mutex::new(shared));
    (Gathered { shared: shared.clone() }, Gatherer { shared, patience })
}

impl<S: AsyncWrite + Unpin> Gatherer<S> {
    /// Looks whether the client has said what it speaks; the alarm goes when it has not in time.
    ///
    /// # Errors
    /// `TimedOut`: nothing else waits for that with a limit.
    pub(super) fn heed(&self, mut alarm: Pin<&mut Option<Sleep>>, context: &mut Context<'_>) -> io::Result<()> {
        if self.shared.lock().gathers.is_some() {
            if alarm.is_some() {
                alarm.set(None);
            }
            return Ok(());
        }
        if alarm.is_none() {
            alarm.set(Some(tokio::time::sleep(self.patience)));
        }
        match alarm.as_pin_mut().is_some_and(|alarm| alarm.poll(context).is_ready()) {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }

    /// Writes out what was gathered, once the work of the connection has come to rest. Whether there is room again of
    /// which nobody else will tell the writer that was held up.
    pub(super) fn drain(&self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut shared = self.shared.lock();
        ready!(shared.drain(context))?;
        Poll::Ready(Ok(std::mem::take(&mut shared.held_up)))
    }
}

impl<S> Shared<S> {
    /// Tells by the client's first bytes, however many come at a time, what it speaks.
    fn hear(&mut self, said: &[u8]) {
        let expected = &PREFACE[self.seen..];
        let some = said.len().min(expected.len());
        self.seen += some;
        if said[..some] != expected[..some] {
            self.gathers = Some(false);
        } else if self.seen == PREFACE.len() {
            self.gathers = Some(true);
        }
    }
}

impl<S: AsyncWrite + Unpin> Shared<S> {
    fn gathers(&self) -> bool {
        self.gathers == Some(true)
    }

    /// Writes out what was gathered. Pending: the rest goes when the socket has room, which wakes the task.
    fn drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !self.out.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.out))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.advance(written);
        }
        if self.out.capacity() > KEPT_BYTES_MAX {
            self.out = BytesMut::new();
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Takes as much as there is room for.
    fn take(&mut self, context: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.out.len() >= GATHERED_BYTES_MAX {
            self.held_up = true;
            ready!(self.drain(context))?;
            self.held_up = false;
        }
        let mut taken = 0;
        for part in parts {
            let room = GATHERED_BYTES_MAX - self.out.len();
            let some = &part[..part.len().min(room)];
            self.out.extend_from_slice(some);
            taken += some.len();
        }
        Poll::Ready(Ok(taken))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.shared.lock();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut shared.stream).poll_read(context, buffer))?;
        if shared.gathers.is_none() {
            shared.hear(&buffer.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let mut shared = self.shared.lock();
        if shared.gathers() {
            return shared.take(context, &[IoSlice::new(buffer)]);
        }
        Pin::new(&mut shared.stream).poll_write(context, buffer)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut shared = self.shared.lock();
        if shared.gathers() {
            return shared.take(context, buffers);
        }
        Pin::new(&mut shared.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        // Gathered, parts are as good as a whole.
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.shared.lock();
        if shared.gathers() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut shared.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.shared.lock();
        ready!(shared.drain(context))?;
        Pin::new(&mut shared.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::super::turn::{Kept, Turns};
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// What the other end gets in each write.
    #[derive(Debug, Default)]
    struct Heard {
        said: &'static [u8],
        writes: Vec<Vec<u8>>,
        is_full: bool,
    }

    impl AsyncRead for Heard {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            buffer.put_slice(std::mem::take(&mut self.said));
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Heard {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
            if self.is_full {
                return Poll::Pending;
            }
            self.writes.push(buffer.to_vec());
            Poll::Ready(Ok(buffer.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn lengths(shared: &Mutex<Shared<Heard>>) -> Vec<usize> {
        shared.lock().stream.writes.iter().map(Vec::len).collect()
    }

    async fn begun(said: &'static [u8]) -> (Gathered<Heard>, Gatherer<Heard>) {
        let (mut stream, gatherer) = gather(Heard { said, ..Heard::default() }, Duration::from_secs(10));
        assert!(stream.read(&mut [0; 64]).await.expect("something was said") > 0);
        (stream, gatherer)
    }

    #[tokio::test]
    async fn what_is_said_in_one_turn_goes_out_at_its_end() {
        let (mut stream, gatherer) = begun(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let shared = stream.shared.clone();
        let work = async {
            for _ in 0..3 {
                stream.write_all(&[7; 100]).await?;
                stream.flush().await?;
            }
            assert_eq!(lengths(&shared), [0; 0], "nothing goes before the turn is over");
            tokio::task::yield_now().await;
            assert_eq!(lengths(&shared), [300]);
            // More than may be gathered goes on its way at once.
            stream.write_all(&[7; 100_000]).await?;
            assert_eq!(lengths(&shared), [300, GATHERED_BYTES_MAX]);
            stream.shutdown().await
        };
        Turns::default().run(&gatherer, &mut Kept::default(), std::pin::pin!(work)).await.expect("done");
        assert_eq!(lengths(&gatherer.shared), [300, GATHERED_BYTES_MAX, 100_000 - GATHERED_BYTES_MAX]);
        assert!(shared.lock().out.capacity() <= KEPT_BYTES_MAX);
    }

    #[tokio::test]
    async fn a_full_socket_holds_the_writer_up() {
        let (mut stream, gatherer) = begun(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        gatherer.shared.lock().stream.is_full = true;
        let mut write = std::pin::pin!(stream.write_all(&[7; 100_000]));
        for _ in 0..3 {
            assert!(futures::poll!(write.as_mut()).is_pending());
        }
        assert_eq!(gatherer.shared.lock().out.len(), GATHERED_BYTES_MAX);
        gatherer.shared.lock().stream.is_full = false;
        write.await.expect("there is room again");
    }

    #[tokio::test]
    async fn a_writer_is_told_of_room_that_comes_while_it_rests() {
        let (mut stream, gatherer) = begun(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let shared = gatherer.shared.clone();
        shared.lock().stream.is_full = true;
        let mut write = std::pin::pin!(stream.write_all(&[7; 100_000]));
        // Between the writer's look and the one at its end the socket becomes free; no waker will ever be called.
        let work = std::pin::pin!(poll_fn(|context| {
            let polled = write.as_mut().poll(context);
            shared.lock().stream.is_full = false;
            polled
        }));
        Turns::default().run(&gatherer, &mut Kept::default(), work).await.expect("written");
        assert_eq!(lengths(&gatherer.shared).iter().sum::<usize>(), 100_000);
    }

    #[tokio::test]
    async fn a_preface_in_pieces_is_one() {
        let (mut stream, _gatherer) = gather(Heard::default(), Duration::from_secs(10));
        for byte in PREFACE.chunks(1) {
            assert_eq!(stream.shared.lock().gathers, None);
            stream.shared.lock().stream.said = byte;
            stream.read_exact(&mut [0]).await.expect("a byte");
        }
        assert_eq!(stream.shared.lock().gathers, Some(true));
    }

    #[tokio::test]
    async fn a_client_that_says_nothing_or_half_is_let_go() {
        for said in [&b""[..], b"PRI * HTTP", b"G"] {
            let (mut stream, gatherer) = gather(Heard { said, ..Heard::default() }, Duration::from_millis(20));
            let work = std::pin::pin!(async {
                if !said.is_empty() {
                    stream.read_exact(&mut vec![0; said.len()]).await?;
                }
                std::future::pending::<io::Result<()>>().await
            });
            let (turns, mut kept) = (Turns::default(), Kept::default());
            let work = turns.run(&gatherer, &mut kept, work);
            let ended = tokio::time::timeout(Duration::from_millis(500), work).await;
            // A request over HTTP/1.1 has begun; its head has a limit of its own.
            let expected = (said != b"G").then_some(io::ErrorKind::TimedOut);
            assert_eq!(ended.ok().map(|ended| ended.expect_err("ended").kind()), expected);
        }
    }

    #[tokio::test]
    async fn anything_but_http2_is_not_held_back() {
        let (mut stream, gatherer) = begun(b"GET / HTTP/1.1\r\n").await;
        stream.write_all(&[7; 100]).await.expect("written");
        assert_eq!(lengths(&gatherer.shared), [100]);
    }
}
