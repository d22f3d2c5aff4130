//! A TCP proxy before a server, whose connections a test can cut or silence.
//!
//! Invariant: the bytes of a connection pass unchanged and in order until it is cut or silenced; what was on its way at
//! that moment is lost, as on a real wire.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// Bytes forwarded at a time.
const CHUNK_BYTES: usize = 16 << 10;

/// A proxy under a test's command; gone when dropped.
#[derive(Debug)]
pub struct Cutter {
    address: SocketAddr,
    orders: watch::Sender<Orders>,
    accepted: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

/// Which connections, numbered from 1 in the order they came, are cut or silenced.
#[derive(Debug, Clone, Copy, Default)]
struct Orders {
    cut_up_to: u64,
    silent_up_to: u64,
    /// Connections that come now are closed at once.
    closed: bool,
}

impl Cutter {
    /// A proxy on a free port before `target`.
    ///
    /// # Errors
    /// If no port can be had.
    pub async fn start(target: SocketAddr) -> std::io::Result<Cutter> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (orders, receiver) = watch::channel(Orders::default());
        let accepted = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(accept(listener, target, receiver, accepted.clone()));
        Ok(Cutter { address, orders, accepted, task })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections have come so far.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Closes every connection there is; new ones pass.
    pub fn cut(&self) {
        let now = self.accepted();
        self.orders.send_modify(|orders| orders.cut_up_to = now);
    }

    /// Closes every connection there is and each that comes, until [`Cutter::open`].
    pub fn close(&self) {
        let now = self.accepted();
        self.orders.send_modify(|orders| {
            orders.cut_up_to = now;
            orders.closed = true;
        });
    }

    /// Lets new connections pass again.
    pub fn open(&self) {
        self.orders.send_modify(|orders| orders.closed = false);
    }

    /// Passes nothing more on the connections there are, and leaves them open; new ones pass.
    pub fn silence(&self) {
        let now = self.accepted();
        self.orders.send_modify(|orders| orders.silent_up_to = now);
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, orders: watch::Receiver<Orders>, accepted: Arc<AtomicU64>) {
    // Owned here, so that the connections end with the proxy.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let number = accepted.fetch_add(1, Ordering::SeqCst) + 1;
        connections.spawn(carry(client, target, number, orders.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// One connection, until an end closes it, or it is cut. A server that is away closes it at once.
async fn carry(client: TcpStream, target: SocketAddr, number: u64, mut orders: watch::Receiver<Orders>) {
    if orders.borrow().closed {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let silence = orders.clone();
    tokio::select! {
        // A dropped sender means that the proxy goes.
        _ = orders.wait_for(|orders| orders.cut_up_to >= number) => {}
        () = pass(&mut from_client, &mut to_server, number, silence.clone()) => {}
        () = pass(&mut from_server, &mut to_client, number, silence) => {}
    }
}

async fn pass(
    from: &mut tokio::net::tcp::OwnedReadHalf,
    to: &mut tokio::net::tcp::OwnedWriteHalf,
    number: u64,
    orders: watch::Receiver<Orders>,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(count) = from.read(&mut chunk).await {
        if orders.borrow().silent_up_to >= number {
            std::future::pending::<()>().await;
        }
        if count == 0 || to.write_all(&chunk[..count]).await.is_err() {
            return;
        }
    }
}
