//! `SelfSubjectReview`: who am I. `TokenReview`: whose is this token.

use listwatch_proto::resource::{Object, Status, time};
use serde_json::{Value, json};

use super::super::Authenticator;
use crate::registry::{Registry, RequestContext, User};

/// `SelfSubjectReview`.
pub(in super::super) fn self_subject(registry: &Registry, context: &RequestContext, mut review: Object) -> Object {
    review.set(&["metadata"], json!({"creationTimestamp": time(registry.time())}));
    review.set(&["status"], json!({"userInfo": user_info(&context.user)}));
    review
}

/// `TokenReview`.
pub(in super::super) async fn token(
    authenticator: &Authenticator,
    registry: &Registry,
    mut review: Object,
) -> Result<Object, Status> {
    let token = review.text(&["spec", "token"]).to_owned();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let wanted = review.at(&["spec", "audiences"]).and_then(Value::as_array);
    let wanted: Vec<String> = wanted.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let status = match authenticator.token(registry, &token, &wanted).await {
        Ok(believed) => {
            json!({"authenticated": true, "user": user_info(&believed.user), "audiences": believed.audiences})
        }
        Err(why) => json!({"user": {}, "error": why}),
    };
    review.set(&["status"], status);
    Ok(review)
}

/// A user as the API tells it; what is empty is left out.
fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
