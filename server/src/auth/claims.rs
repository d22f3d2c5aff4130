//! What a client says of itself: kept apart from who it is.

use std::sync::Arc;

use http::HeaderMap;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Status;

use crate::registry::{RequestContext, User};

/// Metadata: the name a client gives itself.
const CLIENT: &str = "lw-client";

/// Metadata: the highest revision the client had seen.
const SEEN_REVISION: &str = "lw-seen-revision";

/// How long a client's name may be: it is stored with each of its writes.
pub const CLIENT_BYTES_MAX: usize = 128;

/// The context of a request of this user.
///
/// # Errors
/// `BadRequest` for a claim that is not well formed.
pub fn context(user: Arc<User>, headers: &HeaderMap) -> Result<RequestContext, Status> {
    let text = |key: &'static str| match headers.get(key).map(http::HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err(Status::bad_request(format!("{key}: not printable ASCII"))),
    };
    let client = match text(CLIENT)? {
        Some(name) if name.len() > CLIENT_BYTES_MAX => {
            let message = format!("{CLIENT}: {} bytes, at most {CLIENT_BYTES_MAX} are kept", name.len());
            return Err(Status::bad_request(message));
        }
        name => name.filter(|n| !n.is_empty()).map(str::to_owned),
    };
    let cause = match text(SEEN_REVISION)? {
        None => 0,
        Some(digits) => digits.parse::<i64>().ok().filter(|revision| *revision >= 0).ok_or_else(|| {
            Status::bad_request(format!("{SEEN_REVISION}: {digits} is not a revision", digits = quote(&digits)))
        })?,
    };
    let agent = headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
    let user_agent = agent.unwrap_or_default().chars().take(CLIENT_BYTES_MAX).collect();
    Ok(RequestContext { user, client, user_agent, cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &'static str, value: &str) -> Result<RequestContext, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(key, value.parse().unwrap());
        context(Arc::default(), &headers)
    }

    #[test]
    fn claims_are_checked() {
        assert_eq!(check(CLIENT, "scheduler").unwrap().client.as_deref(), Some("scheduler"));
        assert_eq!(check(CLIENT, "").unwrap().client, None);
        assert!(check(CLIENT, &"x".repeat(CLIENT_BYTES_MAX)).is_ok());
        assert!(check(CLIENT, &"x".repeat(CLIENT_BYTES_MAX + 1)).is_err());
        assert_eq!(check(SEEN_REVISION, "42").unwrap().cause, 42);
        for wrong in ["", "-1", "1.5", "99999999999999999999"] {
            assert!(check(SEEN_REVISION, wrong).is_err(), "{wrong:?}");
        }
    }
}
