//! What others need to believe a token: the issuer's document and the public keys (OpenID Connect discovery).

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header;
use serde_json::{Value, json};

use super::ServiceAccounts;

/// The path of the public keys.
const JWKS: &str = "/openid/v1/jwks";
/// The path of the issuer's document.
const CONFIGURATION: &str = "/.well-known/openid-configuration";

/// Both documents. They must stand behind a gate: roles say who may read them.
pub fn routes(accounts: Arc<ServiceAccounts>) -> Router {
    Router::new()
        .route(JWKS, get(jwks))
        .route(&format!("{JWKS}/"), get(jwks))
        .route(CONFIGURATION, get(configuration))
        .route(&format!("{CONFIGURATION}/"), get(configuration))
        .with_state(accounts)
}

async fn jwks(State(accounts): State<Arc<ServiceAccounts>>) -> Response {
    document("application/jwk-set+json", &accounts.keys_document())
}

async fn configuration(State(accounts): State<Arc<ServiceAccounts>>) -> Response {
    document("application/json", &accounts.issuer_document())
}

fn document(media_type: &'static str, value: &Value) -> Response {
    let head = [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "public, max-age=3600")];
    (head, value.to_string()).into_response()
}

impl ServiceAccounts {
    fn keys_document(&self) -> Value {
        json!({"keys": self.verifying.iter().map(super::key::VerifyingKey::to_jwk).collect::<Vec<_>>()})
    }

    fn issuer_document(&self) -> Value {
        let issuer = self.options.issuers.first().map_or(super::DEFAULT_ISSUER, String::as_str);
        let uri = self.options.jwks_uri.clone().unwrap_or_else(|| format!("{}{JWKS}", issuer.trim_end_matches('/')));
        let mut algorithms: Vec<&str> = self.verifying.iter().map(|key| key.algorithm.name()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        json!({
            "issuer": issuer,
            "jwks_uri": uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServiceAccountOptions;
    use super::*;

    #[test]
    fn both_documents_tell_of_the_same_keys() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sa.key");
        std::fs::write(&path, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
        let options = ServiceAccountOptions { signing_key: Some(path.clone()), keys: vec![path], ..Default::default() };
        let accounts = ServiceAccounts::load(options).unwrap();
        let keys = accounts.keys_document();
        assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1));
        let document = accounts.issuer_document();
        assert_eq!(document["id_token_signing_alg_values_supported"], json!(["ES256"]));
        assert!(document["jwks_uri"].as_str().unwrap().ends_with("cluster.local/openid/v1/jwks"));
    }
}
