//! A cache with its feeder, and the handlers that are told of each change.
//!
//! Handlers only put keys into queues: they run on the feeder's task and must not block. They are added before the
//! informer runs, so that each of them hears of every object.

use listwatch_proto::resource::Kind;
use tokio_util::sync::CancellationToken;

use super::{Change, IndexerBuilder, Reflector, ReflectorConfig, Store, Writer};
use crate::client::{Client, Decode, Resource};

type Handler<T> = Box<dyn FnMut(&Change<T>) + Send>;

/// A collection's cache and its feeder, not yet running.
///
/// ```no_run
/// # use listwatch_components::{client::Client, runtime::{Informer, RateLimitedQueue}};
/// # use k8s_openapi::api::core::v1::Pod;
/// # use tokio_util::sync::CancellationToken;
/// # async fn example(client: Client, queue: RateLimitedQueue<listwatch_proto::resource::ObjectKey>) {
/// let mut pods = Informer::<Pod>::new(&client);
/// pods.on_change(move |change| queue.add(change.key().clone()));
/// let store = pods.store();
/// let stop = CancellationToken::new();
/// tokio::join!(pods.run(stop.clone()), async {
///     store.wait_synced().await.expect("the informer runs beside");
///     println!("{} pods", store.len());
///     stop.cancel();
/// });
/// # }
/// ```
pub struct Informer<T> {
    client: Client,
    kind: &'static Kind,
    config: ReflectorConfig,
    writer: Writer<T>,
    store: Store<T>,
    handlers: Vec<Handler<T>>,
}

impl<T: Resource> Informer<T> {
    /// Every object of the kind, indexed by namespace.
    pub fn new(client: &Client) -> Self {
        Self::with(client, T::kind(), ReflectorConfig::default(), IndexerBuilder::new())
    }

    /// Every object of the kind, with these indices too.
    pub fn indexed(client: &Client, indexer: IndexerBuilder<T>) -> Self {
        Self::with(client, T::kind(), ReflectorConfig::default(), indexer)
    }
}

impl<T: Decode> Informer<T> {
    /// Any selection, any cached type, any indices.
    pub fn with(client: &Client, kind: &'static Kind, config: ReflectorConfig, indexer: IndexerBuilder<T>) -> Self {
        let (writer, store) = indexer.build();
        Informer { client: client.clone(), kind, config, writer, store, handlers: Vec::new() }
    }

    /// The cache, to read.
    pub fn store(&self) -> Store<T> {
        self.store.clone()
    }

    /// The kind it caches.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Calls this with each change, after the cache has it. It must not block.
    pub fn on_change(&mut self, handler: impl FnMut(&Change<T>) + Send + 'static) {
        self.handlers.push(Box::new(handler));
    }

    /// Runs until told to stop, or until the future is dropped.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut handlers = self.handlers;
        Reflector::new(&self.client, self.kind, self.config, self.writer)
            .on_change(move |change| handlers.iter_mut().for_each(|handler| handler(change)))
            .run(shutdown)
            .await;
    }
}
