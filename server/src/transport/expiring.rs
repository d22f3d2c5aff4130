//! Answers that must have been taken in time.
//!
//! A body is asked for more only when the client has room for more: of one that stops reading nothing is heard again. So
//! somebody else watches the clock, and takes away what is left of the answer: the memory behind it and the place among
//! the requests are free again, and the client, should it ever read on, finds the answer broken off.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

/// The rest of an answer; `None` once the time is over.
type Rest = Arc<Mutex<Option<Body>>>;

/// A body that is taken away after some time.
struct Expiring {
    rest: Rest,
    _clock: AbortOnDropHandle<()>,
}

/// The body, if it is taken within this time; else what there is of it by then, and an error.
pub(crate) fn expiring(body: Body, limit: Duration) -> Body {
    let rest: Rest = Arc::new(Mutex::new(Some(body)));
    let held = rest.clone();
    let clock = tokio::spawn(async move {
        tokio::time::sleep(limit).await;
        // Not dropped under the lock: what hangs on it is not known here.
        let rest = held.lock().take();
        drop(rest);
    });
    Body::new(Expiring { rest, _clock: AbortOnDropHandle::new(clock) })
}

impl hyper::body::Body for Expiring {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.rest.lock().as_mut() {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(Some(Err(axum::Error::new("the answer was not read in time")))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.lock().as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.rest.lock().as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{StreamExt, stream};
    use http_body_util::BodyExt;
    use hyper::body::Body as _;

    #[tokio::test]
    async fn what_is_not_taken_in_time_is_dropped_and_broken_off() {
        let held = Arc::new(());
        let own = held.clone();
        let pieces = stream::iter(0..3).map(move |_| {
            let _ = &own;
            Ok::<_, std::io::Error>(Bytes::from_static(b"x"))
        });
        let mut body = expiring(Body::from_stream(pieces), Duration::from_millis(50));
        assert_eq!(body.frame().await.expect("a piece").expect("read").into_data().expect("data"), "x");
        assert_eq!(Arc::strong_count(&held), 2);
        // Nobody asks for more; what the answer held becomes free all the same.
        let freed = async {
            while Arc::strong_count(&held) > 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), freed).await.expect("freed");
        assert!(body.frame().await.expect("an error").is_err());
    }

    #[tokio::test]
    async fn what_is_taken_in_time_is_whole() {
        let pieces = stream::iter(0..3).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"x")));
        let body = expiring(Body::from_stream(pieces), Duration::from_secs(60));
        assert_eq!(body.collect().await.expect("whole").to_bytes(), "xxx");
        let body = expiring(Body::from("y"), Duration::from_secs(60));
        assert_eq!(body.size_hint().exact(), Some(1));
    }
}
