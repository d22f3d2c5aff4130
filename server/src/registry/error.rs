//! Refusals in upstream's words that more than one verb needs (Kubernetes 1.36).

use listwatch_proto::resource::{Cause, Reason, Status};

/// Why an update of a changed object is refused.
pub(super) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// 504: a read not older than a revision that the store has not reached.
pub(super) fn too_large_revision(requested: i64, current: i64) -> Status {
    let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
    let mut status = Status::new(Reason::Timeout, message);
    status.causes = vec![Cause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        field: String::new(),
    }];
    status.retry_after_seconds = 1;
    status
}

/// 410: the snapshot of an exact list is gone.
pub(super) fn list_too_old(oldest: i64, current: i64) -> Status {
    expired("The resourceVersion for the provided list is too old.", oldest, current)
}

/// 410: the snapshot a continue token belongs to is gone; `rest` is a token for what is there now.
pub(super) fn continue_too_old(oldest: i64, current: i64, rest: String) -> Status {
    let mut status = expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        oldest,
        current,
    );
    status.continue_token = rest;
    status
}

/// 410 for a client that resumes against another history.
pub(super) fn other_history(oldest: i64, current: i64) -> Status {
    expired("the store's history is another one than the revision asked for belongs to", oldest, current)
}

fn expired(message: &str, oldest: i64, current: i64) -> Status {
    let mut status = Status::new(Reason::Expired, message);
    status.oldest_revision = oldest;
    status.current_revision = current;
    status
}

/// 405: a verb that the resource does not serve.
pub(super) fn not_served() -> Status {
    Status::new(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
}
