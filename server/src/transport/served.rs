//! What is served at a port.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use tower::Service;

/// An answer to come.
pub type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// Answers the most frequent requests ahead of a router, which costs each of them a handful of allocations and moves.
pub trait Front: fmt::Debug + Send + Sync {
    /// Whether a request is one of these.
    fn takes(&self, request: &Request<Body>) -> bool;

    /// The answer, the same that the router gives.
    fn answer(self: Arc<Self>, request: Request<Body>) -> Answer;
}

/// A router, and what may stand in front of it.
#[derive(Clone, Debug)]
pub struct Served {
    router: Router,
    front: Option<Arc<dyn Front>>,
}

impl From<Router> for Served {
    fn from(router: Router) -> Self {
        Served { router, front: None }
    }
}

impl Served {
    /// A router with a front.
    pub fn fronted(router: Router, front: Arc<dyn Front>) -> Self {
        Served { router, front: Some(front) }
    }

    /// Answers a request.
    pub(super) fn answer(&self, request: Request<Body>) -> Answer {
        match &self.front {
            Some(front) if front.takes(&request) => front.clone().answer(request),
            _ => Box::pin(self.router.clone().call(request)),
        }
    }
}
