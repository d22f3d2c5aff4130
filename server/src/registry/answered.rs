//! What is answered and not kept: reviews, and requests for a service account's token.

use listwatch_proto::resource::{Kind, Reason, Status, Storage};

use super::body::{self, Expected};
use super::kinds::strategy;
use super::{Registry, RequestContext, StoredObject, Target, WriteOptions, Written};

/// The body of a request for a token.
const TOKEN_REQUEST: Expected<'static> = Expected {
    api_version: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    schema: "authentication/v1.TokenRequest",
    custom: None,
};

impl Registry {
    /// Decodes a question and answers it.
    pub(super) async fn answer_object(
        &self,
        context: &RequestContext,
        target: &Target,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let Some(security) = self.shared.security.get() else { return Err(super::error::not_served()) };
        let kind = target.kind;
        let api_version = kind.api_version();
        let expected = match target.subresource.as_str() {
            "token" => TOKEN_REQUEST,
            _ => Expected { api_version: &api_version, kind: kind.kind, schema: strategy(kind).schema(), custom: None },
        };
        let body = body::read(expected, body, options.field_validation)?;
        let mut object = body.object;
        if target.subresource.is_empty() {
            self.place(target, &mut object)?;
        }
        let (answer, said) = security.answer(self, context, target, object).await?;
        let mut warnings = body.warnings;
        warnings.extend(said);
        Ok(Written { object: StoredObject::of(kind, answer, 0), revision: self.revision(), created: true, warnings })
    }
}

impl StoredObject {
    /// What is answered where something was done and nothing is shown: a Status, as Go lays it out.
    pub(super) fn success(kind: &'static Kind) -> Self {
        const CREATED: &[u8] = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#;
        StoredObject::new(kind, bytes::Bytes::from_static(CREATED), 0)
    }
}

/// Refuses to read or change what is not kept.
pub(super) fn is_kept(target: &Target) -> Result<(), Status> {
    if matches!(target.kind.storage, Storage::Nothing | Storage::Computed) {
        let why = "the server does not allow this method on the requested resource";
        return Err(Status::new(Reason::MethodNotAllowed, why));
    }
    Ok(())
}
