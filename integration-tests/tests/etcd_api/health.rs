//! Health, reflection and the plain HTTP paths beside gRPC on one port.

use std::io::{Read, Write};
use std::net::TcpStream;

use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::Target;

/// Status line and body of a plain HTTP/1.1 request.
fn http(target: &Target, path: &str) -> (String, String) {
    let address = target.endpoint.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_paths_answer_as_etcds_do() {
    let target = Target::start("http").await;
    let (line, body) = http(&target, "/version");
    assert!(line.ends_with("200 OK") && body.contains("\"etcdserver\":\"3.") && body.contains("\"etcdcluster\":\"3."));
    let (line, body) = http(&target, "/health");
    assert!(line.ends_with("200 OK") && body.contains("\"health\":\"true\""), "{line} {body}");
    for path in ["/livez", "/readyz", "/livez/serializable_read", "/readyz/data_corruption"] {
        let (line, body) = http(&target, path);
        assert!(line.ends_with("200 OK") && body == "ok\n", "{path}: {line} {body:?}");
    }
    let (_, body) = http(&target, "/readyz?verbose");
    for check in ["data_corruption", "serializable_read", "linearizable_read", "non_learner"] {
        assert!(body.contains(&format!("[+]{check} ok")), "{body}");
    }
    let (line, _) = http(&target, "/no/such/path");
    assert!(line.contains("404"), "{line}");
    let (line, body) = http(&target, "/metrics");
    assert!(line.ends_with("200 OK"));
    for name in ["etcd_server_has_leader 1", "process_resident_memory_bytes ", "etcd_mvcc_db_total_size_in_bytes "] {
        assert!(body.contains(name), "{name} is missing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_health_knows_the_server_and_nothing_else() {
    let target = Target::start("health").await;
    let mut health = HealthClient::new(target.client.channel.clone());
    let check = |service: &str| HealthCheckRequest { service: service.to_owned() };
    let status = health.check(check("")).await.unwrap().into_inner().status;
    assert_eq!(status, ServingStatus::Serving as i32);
    let status = health.check(check("nobody")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::NotFound, "unknown service"));
    let mut watch = health.watch(check("")).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status, ServingStatus::Serving as i32);
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_lists_the_services() {
    let target = Target::start("reflection").await;
    if !target.is_ours() {
        return println!("skipped: etcd has no reflection");
    }
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(target.client.channel.clone());
    let mut answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = answer else { panic!("{answer:?}") };
    let names: Vec<&str> = list.service.iter().map(|service| &*service.name).collect();
    for name in ["etcdserverpb.KV", "etcdserverpb.Watch", "etcdserverpb.Lease", "etcdserverpb.Maintenance"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_nobody_has_is_unimplemented() {
    let target = Target::start("unimplemented").await;
    let mut grpc = tonic::client::Grpc::new(target.client.channel.clone());
    grpc.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckRequest>::default();
    let path = tonic::codegen::http::uri::PathAndQuery::from_static("/no.such.Service/Method");
    let request = tonic::Request::new(HealthCheckRequest::default());
    let status = grpc.unary(request, path, codec).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
}
