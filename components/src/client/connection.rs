//! The connection: one HTTP/2 channel, the identity sent with each call, deadlines, and the revision seen so far.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use http::Uri;
use listwatch_proto::v1::admin_client::AdminClient;
use listwatch_proto::v1::resources_client::ResourcesClient;
use listwatch_proto::v1::{self, Header};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response};

use super::connector::Connector;
use super::lanes::{Lanes, Seat};
use super::tls::Tls;
use super::{ClientConfig, ConfigError, Error, Fence, WireWatch};

/// The largest answer taken. Lists are cut at 2 MiB and watch messages earlier, so this bounds only a misbehaving
/// server; it leaves room for one object of the largest size in a page of many.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// How much one stream may have in flight: a burst of events of a big relist without waiting for the reader.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// How much all streams of a connection may have in flight together, so that no watch can hold up the calls.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// The generated stub, with identity and deadlines on.
pub type Resources = ResourcesClient<InterceptedService<Channel, Caller>>;

/// The stub of what an operator asks, with identity on.
pub type Admin = AdminClient<InterceptedService<Channel, Caller>>;

/// A client of one server: a connection that heals itself, and more where there are many streams. Clones share them.
#[derive(Clone)]
pub struct Client {
    resources: Resources,
    admin: Admin,
    lanes: Arc<Lanes>,
    caller: Caller,
    seen: Arc<AtomicI64>,
    request_timeout: Duration,
    server: Arc<str>,
    name: Arc<str>,
    fence: Option<Fence>,
    on_warning: fn(&str),
    /// For requests of plain HTTP, which go over connections of their own.
    config: Arc<ClientConfig>,
}

/// Puts identity and seen revision on every call.
#[derive(Clone)]
pub struct Caller {
    authorization: Option<MetadataValue<Ascii>>,
    /// Whom it acts as, header by header.
    impersonate: Arc<[(&'static str, MetadataValue<Ascii>)]>,
    client: MetadataValue<Ascii>,
    seen: Arc<AtomicI64>,
}

impl Client {
    /// A client of this server. Nothing is dialled before the first call. Must be called within a tokio runtime.
    pub fn new(config: &ClientConfig) -> Result<Self, ConfigError> {
        let address = |reason: String| ConfigError::Address { address: config.server.clone(), reason };
        let uri: Uri = config.server.parse().map_err(|e: http::uri::InvalidUri| address(e.to_string()))?;
        let host = uri.host().ok_or_else(|| address("names no host".to_owned()))?.to_owned();
        let bare_host = host.trim_start_matches('[').trim_end_matches(']');
        let (tls, default_port) = match uri.scheme_str() {
            Some("https") => (Some(Tls::new(config, bare_host)?), 443),
            Some("http") => (None, 80),
            _ => return Err(address("must begin with https:// or http://".to_owned())),
        };
        let authority = format!("{host}:{}", uri.port_u16().unwrap_or(default_port));
        let endpoint = Endpoint::from_shared(config.server.clone())
            .map_err(|e| address(e.to_string()))?
            .user_agent(concat!("listwatch/", env!("CARGO_PKG_VERSION")))
            .map_err(|e| address(e.to_string()))?
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(config.keep_alive_interval)
            .keep_alive_timeout(config.keep_alive_timeout)
            .keep_alive_while_idle(true);
        let lanes = Arc::new(Lanes::new(endpoint, Connector::new(&authority, tls)));
        let channel = lanes.first();
        let seen = Arc::new(AtomicI64::new(0));
        let caller = Caller::new(config, seen.clone())?;
        let admin = AdminClient::with_interceptor(channel.clone(), caller.clone());
        let resources = stub(channel, caller.clone());
        Ok(Client {
            resources,
            admin,
            lanes,
            caller,
            seen,
            request_timeout: config.request_timeout,
            server: config.server.as_str().into(),
            name: config.client_name.as_str().into(),
            fence: None,
            on_warning: |warning| tracing::warn!("the server warns: {warning}"),
            config: Arc::new(config.clone()),
        })
    }

    /// The same client, but its writes are refused with [`Error::NotLeading`] while the fence is shut. Reads are not.
    #[must_use]
    pub fn fenced(&self, fence: Fence) -> Self {
        Client { fence: Some(fence), ..self.clone() }
    }

    /// Hands the server's warnings (a field that it does not know and drops, say) to `tell` instead of the log.
    #[must_use]
    pub fn with_warnings(mut self, tell: fn(&str)) -> Self {
        self.on_warning = tell;
        self
    }

    /// What it was made from.
    pub(super) fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Hands warnings on.
    pub(super) fn warn(&self, warnings: &[String]) {
        warnings.iter().for_each(|warning| (self.on_warning)(warning));
    }

    /// The address it talks to.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The highest revision that any answer or event has shown this client; 0 before the first.
    pub fn seen_revision(&self) -> i64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// The bare stub, for what is not offered here. The caller sees to deadlines.
    pub fn resources(&self) -> Resources {
        self.resources.clone()
    }

    /// The bare stub of what an operator asks of the store. The caller sees to deadlines.
    pub fn admin(&self) -> Admin {
        self.admin.clone()
    }

    /// The kinds the server serves.
    pub async fn discover(&self) -> Result<v1::DiscoverResponse, Error> {
        let mut stub = self.resources();
        self.call(v1::DiscoverRequest {}, |request| async move { stub.discover(request).await }).await
    }

    /// Reads one object in any view, as it came.
    pub async fn get_wire(&self, request: v1::GetRequest) -> Result<v1::ObjectResponse, Error> {
        let mut stub = self.resources();
        self.call(request, |request| async move { stub.get(request).await }).await
    }

    /// Reads one page of a collection in any view, as it came.
    pub async fn list_wire(&self, request: v1::ListRequest) -> Result<v1::ListResponse, Error> {
        let mut stub = self.resources();
        self.call(request, |request| async move { stub.list(request).await }).await
    }

    /// Opens a watch in any view.
    pub async fn watch_wire(&self, request: v1::WatchRequest) -> Result<WireWatch, Error> {
        let (mut stub, seat) = self.streaming();
        let stream = self.open(request, |request| async move { stub.watch(request).await }).await?;
        Ok(WireWatch::new(stream, self.clone(), seat))
    }

    /// The stub for a stream that stays open, and the place it takes, which must be held as long.
    pub(super) fn streaming(&self) -> (Resources, Seat) {
        let seat = self.lanes.seat();
        (stub(seat.channel(), self.caller.clone()), seat)
    }

    /// Waits until the server answers, at most `limit`.
    pub async fn wait_ready(&self, limit: Duration) -> Result<(), Error> {
        let probe = async {
            loop {
                match self.discover().await {
                    // The connector itself spaces the attempts.
                    Err(error) if error.is_transient() => {
                        tracing::debug!(%error, server = self.server(), "the server is not there yet");
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    outcome => return outcome.map(drop),
                }
            }
        };
        tokio::time::timeout(limit, probe).await.unwrap_or(Err(Error::Deadline { after: limit }))
    }

    /// Notes a revision that the server has shown.
    pub(super) fn note_seen(&self, revision: i64) {
        self.seen.fetch_max(revision, Ordering::Relaxed);
    }

    /// One unary call that changes something: only while the fence is open.
    pub(super) async fn write<Q, R, F>(&self, message: Q, send: impl FnOnce(Request<Q>) -> F) -> Result<R, Error>
    where
        F: Future<Output = Result<Response<R>, tonic::Status>>,
        R: HasHeader,
    {
        if self.fence.as_ref().is_some_and(|fence| !fence.is_open()) {
            return Err(Error::NotLeading);
        }
        self.call(message, send).await
    }

    /// One unary call under the deadline, errors mapped, the header's revision noted.
    pub(super) async fn call<Q, R, F>(&self, message: Q, send: impl FnOnce(Request<Q>) -> F) -> Result<R, Error>
    where
        F: Future<Output = Result<Response<R>, tonic::Status>>,
        R: HasHeader,
    {
        let after = self.request_timeout;
        let mut request = Request::new(message);
        request.set_timeout(after);
        match tokio::time::timeout(after, send(request)).await {
            Err(_) => Err(Error::Deadline { after }),
            Ok(Err(status)) => Err(Error::from_grpc_within(status, after)),
            Ok(Ok(response)) => {
                let answer = response.into_inner();
                self.note_seen(answer.header().map_or(0, |h| h.revision));
                Ok(answer)
            }
        }
    }

    /// Opens a stream: only the opening has a deadline.
    pub(super) async fn open<Q, R, F>(&self, message: Q, send: impl FnOnce(Request<Q>) -> F) -> Result<R, Error>
    where
        F: Future<Output = Result<Response<R>, tonic::Status>>,
    {
        let after = self.request_timeout;
        match tokio::time::timeout(after, send(Request::new(message))).await {
            Err(_) => Err(Error::Deadline { after }),
            Ok(outcome) => outcome.map(Response::into_inner).map_err(Error::from_grpc),
        }
    }
}

fn stub(channel: Channel, caller: Caller) -> Resources {
    ResourcesClient::with_interceptor(channel, caller).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.server).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Caller {
    fn new(config: &ClientConfig, seen: Arc<AtomicI64>) -> Result<Self, ConfigError> {
        let value = |what, text: &str| text.parse().map_err(|_| ConfigError::Header { what });
        let authorization = match &config.token {
            None => None,
            Some(token) => {
                let mut value: MetadataValue<Ascii> = value("token", &format!("Bearer {token}"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let mut impersonate = Vec::new();
        for (name, text) in impersonation(config) {
            impersonate.push((name, value("the user to act as", text)?));
        }
        let impersonate = impersonate.into();
        Ok(Caller { authorization, impersonate, client: value("client name", &config.client_name)?, seen })
    }
}

impl Interceptor for Caller {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, tonic::Status> {
        let metadata = request.metadata_mut();
        metadata.insert("lw-client", self.client.clone());
        metadata.insert("lw-seen-revision", MetadataValue::from(self.seen.load(Ordering::Relaxed)));
        if let Some(authorization) = &self.authorization {
            metadata.insert("authorization", authorization.clone());
        }
        for (name, value) in self.impersonate.iter() {
            metadata.append(*name, value.clone());
        }
        Ok(request)
    }
}

/// The headers by which a client says whom it acts as.
pub(super) fn impersonation(config: &ClientConfig) -> impl Iterator<Item = (&'static str, &str)> {
    let whom = &config.impersonate;
    let groups = whom.groups.iter().map(|group| ("impersonate-group", group.as_str()));
    let one = [("impersonate-user", whom.user.as_str()), ("impersonate-uid", whom.uid.as_str())];
    one.into_iter().filter(|(_, text)| !text.is_empty()).chain(groups)
}

/// An answer that says where the store stood.
pub(super) trait HasHeader {
    fn header(&self) -> Option<&Header>;
}

macro_rules! has_header {
    ($($answer:ty),*) => {$(
        impl HasHeader for $answer {
            fn header(&self) -> Option<&Header> {
                self.header.as_ref()
            }
        }
    )*};
}
has_header!(v1::DiscoverResponse, v1::ObjectResponse, v1::ListResponse, v1::DeleteResponse);
