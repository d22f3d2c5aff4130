//! gRPC deadlines (`grpc-timeout`), for every service of a port at once.
//!
//! Bounds the time to the answer's head. A stream that has begun is ended by its client.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, Response};

/// The longest deadline that is honoured; a client that asks for more waits for ever, as with none.
const DEADLINE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The answer, or `DEADLINE_EXCEEDED` when the deadline passes before it begins. Writes that were begun are done or not
/// done, as with a client that went away.
pub(super) async fn within(
    deadline: Option<Duration>,
    answer: impl Future<Output = Result<Response<Body>, Infallible>>,
) -> Result<Response<Body>, Infallible> {
    let Some(deadline) = deadline else { return answer.await };
    match tokio::time::timeout(deadline, answer).await {
        Ok(answer) => answer,
        Err(_) => {
            let status = tonic::Status::deadline_exceeded("the client's deadline has passed");
            Ok(status.into_http::<tonic::body::Body>().map(Body::new))
        }
    }
}

/// The value of `grpc-timeout`: at most eight digits and a unit. What does not read so is no deadline, as in grpc-go.
pub(super) fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    let limit = match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    };
    (limit <= DEADLINE_MAX).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_read_as_grpc_writes_them() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            deadline(&headers)
        };
        assert_eq!(read("10S"), Some(Duration::from_secs(10)));
        assert_eq!(read("1500m"), Some(Duration::from_millis(1500)));
        assert_eq!(read("99999999n"), Some(Duration::from_nanos(99_999_999)));
        for none in ["", "S", "10", "10x", "-1S", "123456789m", "99999999H", "1.5S"] {
            assert_eq!(read(none), None, "{none:?}");
        }
        assert_eq!(deadline(&HeaderMap::new()), None);
    }
}
