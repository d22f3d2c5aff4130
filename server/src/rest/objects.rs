//! The verbs on one object.

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Status;
use serde_json::json;

use super::form::answer;
use super::form::body;
use super::form::negotiate::{self, Encoding, Form};
use super::form::table::Carried;
use super::list::{one, page_of};
use super::query::Query;
use crate::registry::{
    Deleted, FieldValidation, Patch, PatchKind, Registry, RequestContext, Target, WriteOptions, Written,
};

/// A request on one object, as far as the verbs need it.
pub(super) struct Ask<'a> {
    pub(super) registry: &'a Registry,
    pub(super) context: &'a RequestContext,
    pub(super) target: &'a Target,
    pub(super) query: &'a Query,
    pub(super) form: Form,
    pub(super) carried: Carried,
}

impl Ask<'_> {
    pub(super) async fn get(&self) -> Result<Response, Status> {
        self.query.check_export()?;
        self.check_name()?;
        let object = self.registry.get(self.context, self.target, self.query.min_revision()?).await?;
        one(self.registry, &object, self.form, self.carried, StatusCode::OK)
    }

    /// Whether the name can stand in a path of the store (upstream's `IsValidPathSegmentName`).
    fn check_name(&self) -> Result<(), Status> {
        let name = &self.target.name;
        let why = match name.as_str() {
            "." | ".." => format!("may not be '{name}'"),
            other if other.contains('%') => "may not contain '%'".to_owned(),
            _ => return Ok(()),
        };
        Err(Status::bad_request(format!("Name parameter invalid: {}: {why}", quote(name))))
    }

    pub(super) async fn create(&self, request: Request) -> Result<Response, Status> {
        let options = self.query.write_options("CreateOptions")?;
        let headers = request.headers().clone();
        let (json, repeated) = self.sent(&headers, body::bytes(request).await?, &options)?;
        let written = self.registry.create(self.context, self.target, &json, &options).await;
        let written = warned(written, repeated)?;
        self.written(&written, StatusCode::CREATED)
    }

    pub(super) async fn update(&self, request: Request) -> Result<Response, Status> {
        let options = self.query.write_options("UpdateOptions")?;
        let headers = request.headers().clone();
        let (json, repeated) = self.sent(&headers, body::bytes(request).await?, &options)?;
        self.check_name()?;
        let written = self.registry.update(self.context, self.target, &json, &options).await;
        let written = warned(written, repeated)?;
        self.written(&written, if written.created { StatusCode::CREATED } else { StatusCode::OK })
    }

    /// The body of a create or an update as JSON, and what to warn of: keys that stand there again.
    fn sent(&self, headers: &HeaderMap, bytes: Bytes, options: &WriteOptions) -> Result<(Bytes, Vec<String>), Status> {
        let kind = self.target.kind;
        let (json, repeated) = body::object(kind, headers, bytes)?;
        match options.field_validation {
            FieldValidation::Strict if !repeated.is_empty() => Err(Status::bad_request(format!(
                "{0} in version {1:?} cannot be handled as a {0}: strict decoding error: yaml: unmarshal errors:\n  {2}",
                kind.kind,
                kind.version,
                repeated.join("\n  ")
            ))),
            FieldValidation::Ignore => Ok((json, Vec::new())),
            _ => Ok((json, repeated)),
        }
    }

    pub(super) async fn patch(&self, request: Request) -> Result<Response, Status> {
        let options = self.query.write_options("PatchOptions")?;
        let kind = body::patch_kind(self.target.kind, request.headers())?;
        let mut bytes = body::bytes(request).await?;
        let mut repeated = Vec::new();
        if kind == PatchKind::Apply {
            (bytes, repeated) = body::configuration(&bytes)?;
        }
        match options.field_validation {
            FieldValidation::Strict if !repeated.is_empty() => {
                let why = repeated.join("\n  ");
                return Err(Status::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {why}"
                )));
            }
            FieldValidation::Ignore => repeated.clear(),
            _ => {}
        }
        self.check_name()?;
        // For any other form it may not even be said.
        let force = if kind == PatchKind::Apply { self.query.force() } else { self.query.flag("force").is_some() };
        let patch = Patch { kind, body: bytes, force };
        let written = warned(self.registry.patch(self.context, self.target, &patch, &options).await, repeated)?;
        self.written(&written, if written.created { StatusCode::CREATED } else { StatusCode::OK })
    }

    pub(super) async fn delete(&self, request: Request) -> Result<Response, Status> {
        let headers = request.headers().clone();
        let options = body::delete_options(self.target.kind, &headers, body::bytes(request).await?, self.query)?;
        self.check_name()?;
        let deleted = self.registry.delete(self.context, self.target, &options).await?;
        self.deleted(&deleted, options.dry_run)
    }

    pub(super) async fn delete_collection(&self, request: Request) -> Result<Response, Status> {
        let list = self.query.list_of_deletion()?;
        let headers = request.headers().clone();
        let options = body::delete_options(self.target.kind, &headers, body::bytes(request).await?, self.query)?;
        let page = self.registry.delete_collection(self.context, self.target, &list, &options).await?;
        page_of(self.registry, self.target, page, self.form, self.carried)
    }

    fn deleted(&self, deleted: &Deleted, dry_run: bool) -> Result<Response, Status> {
        let mut response = self.what_was_deleted(deleted, dry_run)?;
        answer::warn(&mut response, &deleted.warnings);
        Ok(response)
    }

    fn what_was_deleted(&self, deleted: &Deleted, dry_run: bool) -> Result<Response, Status> {
        let object = &deleted.object;
        if !deleted.removed {
            return one(self.registry, object, self.form, self.carried, StatusCode::OK);
        }
        if self.registry.tells_what_it_deleted(object.kind()) {
            let gone = object.at(if dry_run { object.revision() } else { deleted.revision });
            return one(self.registry, &gone, self.form, self.carried, StatusCode::OK);
        }
        let kind = object.kind();
        let mut details = json!({"name": object.name(), "kind": kind.plural, "uid": object.uid()});
        if !kind.group.is_empty() {
            details["group"] = kind.group.into();
        }
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
        Ok(answer::status(StatusCode::OK, self.form.encoding, &status))
    }

    fn written(&self, written: &Written, code: StatusCode) -> Result<Response, Status> {
        let mut response = one(self.registry, &written.object, self.form, self.carried, code)?;
        answer::warn(&mut response, &written.warnings);
        Ok(response)
    }
}

/// The outcome of a write, with what was to warn of before it.
fn warned(outcome: Result<Written, Status>, before: Vec<String>) -> Result<Written, Status> {
    match outcome {
        Ok(mut written) => {
            written.warnings.splice(0..0, before);
            Ok(written)
        }
        Err(mut status) => {
            status.warnings.splice(0..0, before);
            Err(status)
        }
    }
}

/// The encoding of a failure.
pub(super) fn encoding_of(request: &Request) -> Encoding {
    negotiate::encoding(request.headers())
}
