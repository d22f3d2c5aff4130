//! A connection by TLS that shows nothing of itself unless told to, and calls whose messages are any bytes.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use hyper_util::rt::TokioIo;
use listwatch_integration_tests::Server;
use listwatch_proto::resource::Status;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tower::{Service, ServiceExt};

/// A connection of nobody to the TLS port.
pub(crate) fn nobody(server: &Server) -> Channel {
    connection(&server.data_dir().join("pki"), None, server.secure_address())
}

/// A connection by TLS to an address, with the authority of this folder and, if one is named, its certificate.
pub(crate) fn connection(pki: &Path, certificate: Option<&str>, address: SocketAddr) -> Channel {
    let read = |name: &str| std::fs::read(pki.join(name)).expect("a file of the authority");
    let chain = |pem: &[u8]| -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().expect("PEM")
    };
    let mut roots = RootCertStore::empty();
    for certificate in chain(&read("ca.crt")) {
        roots.add(certificate).expect("an authority");
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(stem) => {
            let key = PrivateKeyDer::from_pem_slice(&read(&format!("{stem}.key"))).expect("a key");
            builder.with_client_auth_cert(chain(&read(&format!("{stem}.crt"))), key).expect("a pair")
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let dial = tower::service_fn(move |_: http::Uri| {
        let connector = connector.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::IpAddress(address.ip().into());
            connector.connect(name, stream).await.map(TokioIo::new)
        }
    });
    Endpoint::from_shared(format!("http://{address}")).expect("an address").connect_with_connector_lazy(dial)
}

/// The status code and body of a GET.
pub(crate) async fn get(channel: &Channel, path: &str) -> (u16, String) {
    get_with(channel, path, &[]).await
}

/// The status code and body of a GET with these headers.
pub(crate) async fn get_with(channel: &Channel, path: &str, headers: &[(&'static str, &str)]) -> (u16, String) {
    let mut request = http::Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(tonic::body::Body::empty()).expect("a request");
    let response = channel.clone().ready().await.expect("a connection").call(request).await.expect("an answer");
    let (head, body) = response.into_parts();
    let body = http_body_util::BodyExt::collect(body).await.expect("a body").to_bytes();
    (head.status.as_u16(), String::from_utf8_lossy(&body).into_owned())
}

/// Calls a unary method with this message and metadata.
pub(crate) async fn call(
    channel: &Channel,
    path: &'static str,
    message: impl Into<Bytes>,
    metadata: &[(&'static str, &str)],
) -> Result<Bytes, Status> {
    grpc(channel, path, message, metadata).await.map_err(|error| Status::from_grpc(&error))
}

/// [`call`], with the refusal as gRPC tells it.
pub(crate) async fn grpc(
    channel: &Channel,
    path: &'static str,
    message: impl Into<Bytes>,
    metadata: &[(&'static str, &str)],
) -> Result<Bytes, tonic::Status> {
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.expect("a connection");
    let mut request = tonic::Request::new(message.into());
    for (key, value) in metadata {
        request.metadata_mut().insert(*key, value.parse().expect("ASCII"));
    }
    let answer = grpc.unary(request, http::uri::PathAndQuery::from_static(path), AnyBytes).await;
    answer.map(tonic::Response::into_inner)
}

/// Messages as they are.
#[derive(Clone, Copy, Default)]
struct AnyBytes;

impl Codec for AnyBytes {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = AnyBytes;
    type Decoder = AnyBytes;

    fn encoder(&mut self) -> AnyBytes {
        AnyBytes
    }

    fn decoder(&mut self) -> AnyBytes {
        AnyBytes
    }
}

impl Encoder for AnyBytes {
    type Item = Bytes;
    type Error = tonic::Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for AnyBytes {
    type Item = Bytes;
    type Error = tonic::Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, tonic::Status> {
        let len = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(len)))
    }
}
