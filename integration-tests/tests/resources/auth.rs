//! Who is let in, and as whom.

use listwatch_components::client::{Client, ClientConfig, Error};
use listwatch_integration_tests::Server;
use listwatch_proto::resource::Reason;
use listwatch_proto::v1;
use prost::Message;

use crate::door::{Door, admin, config, lease, reference};
use crate::raw;

const GET: &str = "/listwatch.v1.Resources/Get";
const CREATE: &str = "/listwatch.v1.Resources/Create";

fn get_request() -> Vec<u8> {
    let resource = Some(reference("namespaces", "", "default"));
    v1::GetRequest { resource, ..Default::default() }.encode_to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_tokens_are_proof_and_anything_else_is_not() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "secret-1,alice,1,\"dev,ops\"\n")?;
    let server = Server::start(&["--token-auth-file", tokens.to_str().expect("text")])?;

    // The kubeconfig's certificate.
    Door::admin(&server).get("namespaces", "", "default").await.expect("the administrator reads");

    // A token that is known, and one that is not.
    let with_token = |token: Option<&str>| {
        let mut config = ClientConfig { client_certificate: None, ..config(&server) };
        config.token = token.map(str::to_owned);
        Door::of(&Client::new(&config).expect("a client"))
    };
    with_token(Some("secret-1")).get("namespaces", "", "default").await.expect("alice reads");
    let error = with_token(Some("secret-2")).get("namespaces", "", "default").await.expect_err("a bad token");
    assert_eq!(
        (error.reason, error.code, error.grpc_code()),
        (Reason::Unauthorized, 401, tonic::Code::Unauthenticated)
    );
    let error = with_token(None).get("namespaces", "", "default").await.expect_err("nobody");
    assert_eq!((error.reason, error.code), (Reason::Forbidden, 403));
    assert!(error.message.contains("system:anonymous"), "{}", error.message);

    // What is no bearer token is no proof at all (Kubernetes 1.36): whoever shows it is nobody.
    let nobody = raw::nobody(&server);
    for header in ["Basic c2VjcmV0LTE6", "Bearer", "secret-1"] {
        let error = raw::call(&nobody, GET, get_request(), &[("authorization", header)]).await.expect_err(header);
        assert_eq!(error.reason, Reason::Forbidden, "{header}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_version_and_health_alone() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let nobody = raw::nobody(&server);
    for path in ["/version", "/healthz", "/livez", "/readyz"] {
        let (code, body) = raw::get(&nobody, path).await;
        assert_eq!(code, 200, "{path}: {body}");
    }
    let (_, version) = raw::get(&nobody, "/version").await;
    let version: serde_json::Value = serde_json::from_str(&version)?;
    assert_eq!((&version["major"], &version["minor"]), (&"1".into(), &"36".into()));
    raw::call(&nobody, "/grpc.health.v1.Health/Check", vec![], &[]).await.expect("health is public");

    for path in ["/", "/versions", "/healthz/", "/api/v1/pods", "/metrics"] {
        let (code, body) = raw::get(&nobody, path).await;
        let status: serde_json::Value = serde_json::from_str(&body)?;
        assert_eq!((code, &status["reason"]), (403, &"Forbidden".into()), "{path}: {body}");
    }
    let create = v1::CreateRequest {
        resource: Some(reference("leases", "default", "")),
        json: crate::door::encode(&lease("a", serde_json::json!({}))),
        ..Default::default()
    };
    for (path, message) in [
        (GET, get_request()),
        (CREATE, create.encode_to_vec()),
        ("/listwatch.v1.Resources/Discover", vec![]),
        ("/listwatch.v1.Resources/Watch", vec![]),
        ("/listwatch.v1.Admin/Expire", vec![]),
        ("/listwatch.v1.Admin/Watchers", vec![]),
        ("/listwatch.v1.Nothing/Nothing", vec![]),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", vec![]),
    ] {
        let error = raw::call(&nobody, path, message, &[]).await.expect_err(path);
        assert_eq!(error.reason, Reason::Forbidden, "{path}: {}", error.message);
    }
    let untouched = Door::admin(&server).get("leases", "default", "a").await.expect_err("nothing was written");
    assert_eq!(untouched.reason, Reason::NotFound);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_ends_at_the_authority_on_both_sides() -> anyhow::Result<()> {
    let (server, other) = (Server::start(&[])?, Server::start(&[])?);

    // The client does not trust a server of another authority.
    let distrusting = ClientConfig { certificate_authority: config(&other).certificate_authority, ..config(&server) };
    let error = Client::new(&distrusting)?.discover().await.expect_err("an unknown authority");
    assert!(matches!(error, Error::Transport { .. }), "{error}");

    // The server does not trust a certificate of another authority, nor does it take its bearer for nobody.
    let foreign = ClientConfig { client_certificate: config(&other).client_certificate, ..config(&server) };
    let error = Door::of(&Client::new(&foreign)?).get("namespaces", "", "default").await.expect_err("foreign");
    assert_eq!(error.reason, Reason::Unauthorized, "{}", error.message);
    admin(&server).discover().await.expect("the own authority's is let in");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_claims_is_bounded() -> anyhow::Result<()> {
    let server = Server::start(&["--insecure-resource-port", "0"])?;
    let plain = format!("http://{}", server.address("insecure"));
    let channel = tonic::transport::Endpoint::from_shared(plain)?.connect().await?;
    let (longest, longer) = ("x".repeat(128), "x".repeat(129));
    for good in [&[("lw-client", longest.as_str())][..], &[("lw-client", "")], &[("lw-seen-revision", "7")], &[]] {
        raw::call(&channel, GET, get_request(), good).await.expect("taken");
    }
    for bad in [
        ("lw-client", longer.as_str()),
        ("lw-seen-revision", "-1"),
        ("lw-seen-revision", ""),
        ("lw-seen-revision", "many"),
        ("lw-seen-revision", "9223372036854775808"),
    ] {
        let error = raw::call(&channel, GET, get_request(), &[bad]).await.expect_err("refused");
        assert_eq!(error.reason, Reason::BadRequest, "{bad:?}");
        assert!(error.message.contains(bad.0), "{}", error.message);
    }
    Ok(())
}
