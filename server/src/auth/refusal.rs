//! Refusals of what is asked in a body that no registry keeps.

use listwatch_proto::resource::{Cause, Reason, Status};

/// 422 for a kind that has no row of its own, in upstream's words.
pub(super) fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Status {
    let faults: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    let list = if let [one] = faults.as_slice() { one.clone() } else { format!("[{}]", faults.join(", ")) };
    let mut status = Status::new(Reason::Invalid, format!("{kind}.{group} \"{name}\" is invalid: {list}"));
    (status.group, status.kind, status.name) = (group.to_owned(), kind.to_owned(), name.to_owned());
    status.causes = causes;
    status
}
