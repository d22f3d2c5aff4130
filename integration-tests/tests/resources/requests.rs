//! Requests that cannot be read or do not fit: each gets a typed error, and the server goes on.

use listwatch_integration_tests::Server;
use listwatch_proto::resource::{Reason, Status};
use listwatch_proto::v1::{self, PatchType, WatchRequest};
use prost::Message;
use serde_json::json;

use crate::door::{Door, encode, lease, leases, reference};
use crate::raw;

/// The log of the server must not tell of a panic, and it must answer.
async fn lives(server: &Server) {
    Door::admin(server).get("namespaces", "", "default").await.expect("the server goes on");
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Status>, reason: Reason, word: &str) {
    let error = result.expect_err(word);
    assert_eq!(error.reason, reason, "{word}: {}", error.message);
    assert!(error.message.contains(word), "{word:?} is not in {:?}", error.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_object_is_refused() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    let deep = "[".repeat(1 << 20);
    let deep_object = format!("{{\"metadata\":{}", "{\"a\":".repeat(200_000));
    for body in [
        &b""[..],
        b"{",
        b"null",
        b"[]",
        b"17",
        b"\"text\"",
        b"{\"metadata\": }",
        b"{\"metadata\": {\"name\": \"\xff\xfe\"}}",
        b"{\"metadata\": {\"name\": \"a\"}} trailing",
        b"{\"metadata\": {\"name\": 17}}",
        b"{\"metadata\": \"a\"}",
        b"{\"metadata\": {\"name\": \"a\", \"name\": \"b\"}}",
        b"{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}",
        b"\x00\x01\x02",
        deep.as_bytes(),
        deep_object.as_bytes(),
    ] {
        let resource = Some(reference("leases", "default", ""));
        let request = v1::CreateRequest { resource, json: body.to_vec().into(), ..Default::default() };
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let error = door.send_create(request).await.expect_err(&shown);
        assert!(matches!(error.reason, Reason::BadRequest | Reason::Invalid), "{shown}: {error:?}");
        assert!(error.message.len() < 2000, "{shown}: a message of {} bytes", error.message.len());
    }
    door.create("leases", &lease("a", json!({}))).await.expect("created");
    for patch in ["", "{", "[]]", "[{\"op\": \"fly\", \"path\": \"/\"}]", "[{\"op\": \"add\"}]", "17", &deep] {
        for form in [PatchType::Json, PatchType::Merge] {
            let request = v1::PatchRequest {
                resource: Some(reference("leases", "default", "a")),
                r#type: form.into(),
                patch: patch.to_owned().into(),
                ..Default::default()
            };
            let error = door.0.clone().patch(request).await.expect_err(&patch[..patch.len().min(40)]);
            let error = Status::from_grpc(&error);
            assert!(matches!(error.reason, Reason::BadRequest | Reason::Invalid), "{form:?}: {error:?}");
        }
    }
    lives(&server).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_by_its_size() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    // Above what one object may have, above what one body may have, above what one message may have.
    for bytes in [2 << 20, (3 << 20) + 1000, 5 << 20, 40 << 20] {
        let mut body = lease("a", json!({}));
        body["spec"]["holderIdentity"] = json!("x".repeat(bytes));
        let error = door.create("leases", &body).await.expect_err("too large");
        assert_eq!((error.reason, error.code), (Reason::RequestEntityTooLarge, 413), "{bytes}: {}", error.message);
    }
    lives(&server).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_that_are_not_served_are_refused_by_name() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    let of = |group: &str, version: &str, resource: &str| v1::ResourceRef {
        group: group.into(),
        version: version.into(),
        resource: resource.into(),
        namespace: "default".into(),
        ..Default::default()
    };
    for (group, version, resource) in [
        ("", "v1", "gadgets"),
        ("", "v2", "pods"),
        ("apps", "v1", "pods"),
        ("nowhere.example.com", "v1", "pods"),
        ("", "v1", "Pod"),
        ("", "v1", ""),
        ("", "v1", "../pods"),
    ] {
        let at = of(group, version, resource);
        let list = v1::ListRequest { resource: Some(at.clone()), ..Default::default() };
        refused(door.list(list).await, Reason::NotFound, resource);
        let watch = WatchRequest { resource: Some(at.clone()), ..leases() };
        refused(door.watch(watch).await.map(drop), Reason::NotFound, resource);
        refused(door.create_at(at, &lease("a", json!({}))).await, Reason::NotFound, resource);
    }
    let part = |kind, name, subresource: &str| v1::ResourceRef {
        subresource: subresource.into(),
        ..reference(kind, "default", name)
    };
    let get = |at| v1::GetRequest { resource: Some(at), ..Default::default() };
    refused(door.send_get(get(part("pods", "a", "colour"))).await, Reason::NotFound, "pods/colour");
    refused(door.send_get(get(part("leases", "a", "status"))).await, Reason::NotFound, "leases/status");
    refused(door.send_get(get(part("pods", "a", "binding"))).await, Reason::MethodNotAllowed, "not allow");
    refused(door.send_get(v1::GetRequest::default()).await, Reason::BadRequest, "resource");
    let namespaced = v1::ResourceRef { namespace: "default".into(), ..reference("nodes", "", "a") };
    refused(door.send_get(get(namespaced)).await, Reason::BadRequest, "namespace");
    assert!(door.send_get(get(reference("leases", "default", ""))).await.is_err(), "a get without a name");
    for name in ["../../secrets", "a/b", "a\0b", ".", "é"] {
        let result = door.get("leases", "default", name).await;
        let error = result.expect_err(name);
        assert!(matches!(error.reason, Reason::NotFound | Reason::BadRequest | Reason::Invalid), "{name}: {error:?}");
    }
    lives(&server).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_words_out_of_range_are_refused_by_field() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    let list = || v1::ListRequest { resource: Some(reference("leases", "default", "")), ..Default::default() };
    for (request, word) in [
        (v1::ListRequest { limit: -1, ..list() }, "limit"),
        (v1::ListRequest { min_revision: -1, ..list() }, "min_revision"),
        (v1::ListRequest { exact_revision: i64::MIN, ..list() }, "exact_revision"),
        (v1::ListRequest { exact_revision: 3, min_revision: 2, ..list() }, "exact_revision"),
        (v1::ListRequest { view: -1, ..list() }, "view"),
        (v1::ListRequest { continue_token: "garbage!".into(), ..list() }, "continue"),
        (v1::ListRequest { continue_token: "AAAA".into(), ..list() }, "continue"),
        (v1::ListRequest { continue_token: "e30".into(), ..list() }, "continue"),
        (v1::ListRequest { label_selector: "app in (".into(), ..list() }, ""),
        (v1::ListRequest { field_selector: "name".into(), ..list() }, ""),
    ] {
        refused(door.list(request).await, Reason::BadRequest, word);
    }
    // A token of one collection does not open another.
    for name in ["a", "b"] {
        door.create("leases", &lease(name, json!({}))).await.expect("created");
    }
    let token = door.list(v1::ListRequest { limit: 1, ..list() }).await.expect("a page").continue_token;
    let elsewhere =
        v1::ListRequest { resource: Some(reference("pods", "default", "")), continue_token: token, ..list() };
    let elsewhere = door.list(elsewhere).await.expect("an empty rest, or a refusal");
    assert!(elsewhere.items.is_empty());
    for (request, word) in [
        (WatchRequest { start_revision: -1, ..leases() }, "start_revision"),
        (WatchRequest { until_revision: -5, ..leases() }, "until_revision"),
        (WatchRequest { progress_interval_ms: i64::MIN, ..leases() }, "progress_interval_ms"),
        (WatchRequest { view: 77, ..leases() }, "view"),
        (WatchRequest { label_selector: "a=b=c".into(), ..leases() }, ""),
    ] {
        refused(door.watch(request).await.map(drop), Reason::BadRequest, word);
    }
    let delete = || v1::DeleteRequest { resource: Some(reference("leases", "default", "a")), ..Default::default() };
    let negative = v1::DeleteRequest { grace_period_seconds: Some(-1), ..delete() };
    refused(door.delete(negative).await, Reason::BadRequest, "grace_period_seconds");
    let version = v1::Preconditions { resource_version: "soon".into(), ..Default::default() };
    let error =
        door.delete(v1::DeleteRequest { preconditions: Some(version), ..delete() }).await.expect_err("no version");
    assert!(matches!(error.reason, Reason::BadRequest | Reason::Conflict | Reason::Invalid), "{error:?}");
    let create = v1::CreateRequest {
        resource: Some(reference("leases", "default", "")),
        json: encode(&lease("c", json!({}))),
        field_validation: 9,
        ..Default::default()
    };
    refused(door.send_create(create).await, Reason::BadRequest, "field_validation");
    // The largest numbers there are do no harm.
    let largest =
        WatchRequest { start_revision: i64::MAX, until_revision: i64::MAX, progress_interval_ms: i64::MAX, ..leases() };
    let _ = door.watch(largest).await;
    let _ = door.list(v1::ListRequest { limit: i64::MAX, ..list() }).await.expect("everything");
    refused(door.list(v1::ListRequest { min_revision: i64::MAX, ..list() }).await, Reason::Timeout, "Too large");
    lives(&server).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_no_messages_are_refused() -> anyhow::Result<()> {
    let server = Server::start(&["--insecure-resource-port", "0"])?;
    let plain = format!("http://{}", server.address("insecure"));
    let channel = tonic::transport::Endpoint::from_shared(plain)?.connect().await?;
    let get = "/listwatch.v1.Resources/Get";
    // A name that is not UTF-8: the reference of a lease with its last letter broken.
    let resource = Some(reference("leases", "default", "aaaaaaaa"));
    let mut broken = v1::GetRequest { resource, ..Default::default() }.encode_to_vec();
    let at = broken.windows(8).position(|window| window == b"aaaaaaaa").expect("the name");
    broken[at] = 0xff;
    for message in [broken, vec![0xff; 20], vec![0x0a, 0x7f], vec![0x0a]] {
        let error = raw::call(&channel, get, message.clone(), &[]).await.expect_err("no message");
        assert_eq!((error.reason, error.code), (Reason::BadRequest, 400), "{message:?}: {}", error.message);
    }
    let watch = "/listwatch.v1.Resources/Watch";
    let error = raw::call(&channel, watch, vec![0xff; 20], &[]).await.expect_err("no message");
    assert_eq!(error.reason, Reason::BadRequest, "{}", error.message);
    let error = raw::call(&channel, "/listwatch.v1.Resources/Fly", vec![], &[]).await.expect_err("no method");
    assert_eq!(error.grpc_code(), tonic::Code::Unimplemented);
    let error = raw::call(&channel, "/listwatch.v1.Nothing/Fly", vec![], &[]).await.expect_err("no service");
    assert_eq!(error.grpc_code(), tonic::Code::Unimplemented);

    // What speaks no HTTP/2, or no TLS, is let go; others notice nothing.
    for (address, bytes) in [
        (server.address("insecure"), &b"\x16\x03\x01 garbage\r\n\r\n"[..]),
        (server.secure_address(), b"GET / HTTP/1.1\r\n\r\n"),
    ] {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        stream.write_all(bytes).await?;
        let mut answer = Vec::new();
        let end = stream.read_to_end(&mut answer);
        let _ = tokio::time::timeout(crate::door::LIMIT, end).await.expect("the connection is ended");
    }
    lives(&server).await;
    Ok(())
}
