//! The Watch service on the wire.
//!
//! Written by hand where the other services are generated, because its answers carry events already encoded.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::{Stream, stream};
use http::{Request, Response};
use listwatch_proto::etcd::etcdserverpb::WatchRequest;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Status, Streaming};
use tower::Service;

use super::events::{Answer, WatchCodec};
use super::session::Session;
use crate::etcd::caller;
use crate::etcd::front::Front;
use crate::storage::WatcherLabel;

/// The one method of the service.
const METHOD: &str = "/etcdserverpb.Watch/Watch";

type Answers = Pin<Box<dyn Stream<Item = Result<Answer, Status>> + Send>>;
type BoxFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// The service.
#[derive(Clone, Debug)]
pub(in crate::etcd) struct WatchService {
    front: Arc<Front>,
}

impl WatchService {
    pub(in crate::etcd) fn new(front: Arc<Front>) -> Self {
        Self { front }
    }
}

impl NamedService for WatchService {
    const NAME: &'static str = "etcdserverpb.Watch";
}

impl Service<Request<Body>> for WatchService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() != METHOD {
            let status = Status::unimplemented(format!("unknown method {}", request.uri().path()));
            return Box::pin(async move { Ok(status.into_http()) });
        }
        let method = Method { front: self.front.clone() };
        Box::pin(async move { Ok(Grpc::new(WatchCodec).streaming(method, request).await) })
    }
}

struct Method {
    front: Arc<Front>,
}

impl StreamingService<WatchRequest> for Method {
    type Response = Answer;
    type ResponseStream = Answers;
    type Future = BoxFuture<tonic::Response<Answers>, Status>;

    fn call(&mut self, request: tonic::Request<Streaming<WatchRequest>>) -> Self::Future {
        let label = WatcherLabel {
            door: "etcd",
            user: caller::author(request.extensions()),
            client: caller::client(request.metadata()),
            target: None,
        };
        let session = Session::new(self.front.clone(), label, request.into_inner());
        let answers = stream::unfold(session, |mut session| async move {
            let answer = session.next().await?;
            Some((answer, session))
        });
        Box::pin(async move { Ok(tonic::Response::new(Box::pin(answers) as Answers)) })
    }
}
