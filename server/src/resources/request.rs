//! From the wire to the registry's questions; what cannot be read is refused by name.

use std::sync::Arc;
use std::time::Duration;

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Status;
use listwatch_proto::v1;

use crate::auth::Unjudged;
use crate::registry::{
    DeleteOptions, FieldValidation, ListOptions, PatchKind, Propagation, Registry, RequestContext, Target,
    WatchOptions, WriteOptions,
};

/// The shortest silence between bookmarks that may be asked for: below it a watch costs more than polling.
const PROGRESS_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Who asks: put there by the gate. A request that has not passed a gate is nobody's.
pub(super) fn context<T>(request: &tonic::Request<T>) -> Result<Arc<RequestContext>, Status> {
    request
        .extensions()
        .get::<Arc<RequestContext>>()
        .cloned()
        .ok_or_else(|| Status::internal("the request has not been authenticated"))
}

/// Who asks for what the message names.
pub(super) fn asker<T>(request: &tonic::Request<T>) -> Result<Unjudged, Status> {
    let asker = request.extensions().get::<Unjudged>().cloned();
    asker.ok_or_else(|| Status::internal("the request has not been authenticated"))
}

/// The collection or object meant.
pub(super) async fn target(registry: &Registry, reference: Option<&v1::ResourceRef>) -> Result<Target, Status> {
    let reference = reference.ok_or_else(|| Status::bad_request("resource: not given"))?;
    Target::from_reference(&*registry.kinds().await?, reference)
}

/// The view of an answer.
pub(super) fn view(number: i32) -> Result<v1::View, Status> {
    v1::View::try_from(number).map_err(|_| Status::bad_request(format!("view: {number} is not served")))
}

pub(super) fn write_options(field_manager: &str, dry_run: bool, field_validation: i32) -> Result<WriteOptions, Status> {
    let field_validation = match v1::FieldValidation::try_from(field_validation) {
        Ok(v1::FieldValidation::Strict) => FieldValidation::Strict,
        Ok(v1::FieldValidation::Warn) => FieldValidation::Warn,
        Ok(v1::FieldValidation::Ignore) => FieldValidation::Ignore,
        Err(_) => return Err(Status::bad_request(format!("field_validation: {field_validation} is not served"))),
    };
    Ok(WriteOptions { dry_run, field_validation, field_manager: field_manager.to_owned() })
}

pub(super) fn patch_kind(number: i32) -> Result<PatchKind, Status> {
    match v1::PatchType::try_from(number) {
        Ok(v1::PatchType::Json) => Ok(PatchKind::Json),
        Ok(v1::PatchType::Merge) => Ok(PatchKind::Merge),
        Ok(v1::PatchType::Strategic) => Ok(PatchKind::Strategic),
        Ok(v1::PatchType::Apply) => Ok(PatchKind::Apply),
        Ok(v1::PatchType::Unspecified) => Err(Status::bad_request("type: not given (JSON, MERGE)")),
        Err(_) => Err(Status::bad_request(format!("type: {number} is not served"))),
    }
}

pub(super) fn delete_options(request: &v1::DeleteRequest) -> Result<DeleteOptions, Status> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (uid, resource_version) = match &request.preconditions {
        Some(p) => (given(&p.uid), given(&p.resource_version)),
        None => (None, None),
    };
    let propagation = match request.propagation_policy.as_str() {
        "" => None,
        word => Some(Propagation::named(word).ok_or_else(|| {
            let message = format!(
                "propagation_policy: {} is not one of \"Background\", \"Foreground\", \"Orphan\"",
                quote(&word)
            );
            Status::bad_request(message)
        })?),
    };
    let grace_period_seconds = request.grace_period_seconds;
    if grace_period_seconds.is_some_and(|s| s < 0) {
        return Err(Status::bad_request("grace_period_seconds: must not be negative"));
    }
    Ok(DeleteOptions { uid, resource_version, grace_period_seconds, propagation, dry_run: request.dry_run })
}

/// Objects deleted by one request at most: an answer stays far below what a message holds.
const DELETED_MAX: i64 = 1000;

/// Which objects of a collection are deleted, and how.
pub(super) fn collection_options(
    request: &v1::DeleteCollectionRequest,
) -> Result<(ListOptions, DeleteOptions), Status> {
    not_negative("limit", request.limit)?;
    let list = ListOptions {
        label_selector: request.label_selector.clone(),
        field_selector: request.field_selector.clone(),
        limit: if request.limit == 0 { DELETED_MAX } else { request.limit.min(DELETED_MAX) },
        continue_token: request.continue_token.clone(),
        ..ListOptions::default()
    };
    let options = delete_options(&v1::DeleteRequest {
        resource: None,
        preconditions: request.preconditions.clone(),
        grace_period_seconds: request.grace_period_seconds,
        propagation_policy: request.propagation_policy.clone(),
        dry_run: request.dry_run,
    })?;
    Ok((list, options))
}

pub(super) fn list_options(request: &v1::ListRequest) -> Result<ListOptions, Status> {
    for (field, value) in
        [("limit", request.limit), ("min_revision", request.min_revision), ("exact_revision", request.exact_revision)]
    {
        not_negative(field, value)?;
    }
    if request.exact_revision > 0 && request.min_revision > 0 {
        return Err(Status::bad_request("exact_revision: excludes min_revision"));
    }
    if !request.continue_token.is_empty() && (request.exact_revision > 0 || request.min_revision > 0) {
        return Err(Status::bad_request("continue_token: excludes min_revision and exact_revision"));
    }
    Ok(ListOptions {
        label_selector: request.label_selector.clone(),
        field_selector: request.field_selector.clone(),
        limit: request.limit,
        continue_token: request.continue_token.clone(),
        min_revision: request.min_revision,
        exact_revision: request.exact_revision,
    })
}

/// The registry's stream always tells its progress; whether the client sees bookmarks is decided at the door.
pub(super) fn watch_options(request: &v1::WatchRequest) -> Result<WatchOptions, Status> {
    for (field, value) in [
        ("start_revision", request.start_revision),
        ("until_revision", request.until_revision),
        ("progress_interval_ms", request.progress_interval_ms),
    ] {
        not_negative(field, value)?;
    }
    let progress_interval = match u64::try_from(request.progress_interval_ms) {
        Ok(0) | Err(_) => None,
        Ok(ms) => Some(Duration::from_millis(ms)),
    };
    if progress_interval.is_some_and(|i| i < PROGRESS_INTERVAL_MIN) {
        let least = PROGRESS_INTERVAL_MIN.as_millis();
        return Err(Status::bad_request(format!("progress_interval_ms: at least {least} (0: the server's own)")));
    }
    Ok(WatchOptions {
        label_selector: request.label_selector.clone(),
        field_selector: request.field_selector.clone(),
        start_revision: request.start_revision,
        incarnation: request.incarnation.clone(),
        send_initial_events: request.send_initial_events,
        allow_bookmarks: true,
        until_revision: request.until_revision,
        progress_interval,
    })
}

pub(super) fn not_negative(field: &str, value: i64) -> Result<(), Status> {
    if value < 0 { Err(Status::bad_request(format!("{field}: must not be negative"))) } else { Ok(()) }
}
