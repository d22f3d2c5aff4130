//! Reads of points, pages and whole lists.

use clap::Args;
use futures::{StreamExt, TryStreamExt};
use listwatch_proto::etcd::etcdserverpb::{
    PutRequest, RangeRequest, RequestOp, TxnRequest, kv_client::KvClient, request_op::Request,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tonic::transport::Channel;

use crate::load::{self, LoadArgs};
use crate::put::{key, value};
use crate::stats::Measured;

/// Keys written by one transaction when the store is filled.
const FILL_BATCH: u64 = 100;
/// Transactions under way at the same time when the store is filled.
const FILL_CONCURRENT: usize = 16;

/// The `range` command.
#[derive(Clone, Debug, Args)]
pub(crate) struct RangeArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Keys the store is filled with before
    #[arg(long, default_value_t = 10_000)]
    pub(crate) keys: u64,
    /// Bytes of a key
    #[arg(long, default_value_t = 24)]
    pub(crate) key_size: usize,
    /// Bytes of a value
    #[arg(long, default_value_t = 256)]
    pub(crate) value_size: usize,
    /// Keys of one answer: 1 reads one key by name, more read a page from a random key on, 0 lists everything
    #[arg(long, default_value_t = 1)]
    pub(crate) limit: i64,
    /// Ask for the count only
    #[arg(long)]
    pub(crate) count_only: bool,
    /// Take what is there instead of filling the store
    #[arg(long)]
    pub(crate) no_fill: bool,
    /// The keys' beginning
    #[arg(long, default_value = "/bench/range/")]
    pub(crate) prefix: String,
}

impl RangeArgs {
    /// Fills the store, then runs the load.
    pub(crate) async fn run(&self) -> anyhow::Result<Measured> {
        let channels = self.load.connect().await?;
        if !self.no_fill {
            self.fill(channels[0].clone()).await?;
        }
        self.measure(&channels).await
    }

    /// Writes the keys that the load reads.
    pub(crate) async fn fill(&self, channel: Channel) -> anyhow::Result<()> {
        let value = value(0, self.value_size);
        let put = |number: u64| RequestOp {
            request: Some(Request::RequestPut(PutRequest {
                key: key(&self.prefix, number, self.key_size),
                value: value.clone(),
                ..PutRequest::default()
            })),
        };
        let batches = (0..self.keys).step_by(FILL_BATCH as usize).map(|first| {
            let last = (first + FILL_BATCH).min(self.keys);
            let request = TxnRequest { success: (first..last).map(put).collect(), ..TxnRequest::default() };
            let mut client = KvClient::new(channel.clone());
            async move { client.txn(request).await.map(drop) }
        });
        futures::stream::iter(batches).buffer_unordered(FILL_CONCURRENT).try_collect::<()>().await?;
        Ok(())
    }

    /// Runs the load on a store that is filled.
    pub(crate) async fn measure(&self, channels: &[Channel]) -> anyhow::Result<Measured> {
        load::run(&self.load, channels, |number, channel| {
            let client = KvClient::new(channel).max_decoding_message_size(usize::MAX);
            let mut random = StdRng::seed_from_u64(number as u64);
            let args = self.clone();
            move |_| {
                let request = args.request(&mut random);
                let mut client = client.clone();
                async move {
                    client.range(request).await?;
                    Ok(())
                }
            }
        })
        .await
    }

    fn request(&self, random: &mut StdRng) -> RangeRequest {
        let from = random.random_range(0..self.keys.max(1));
        let mut end = self.prefix.clone().into_bytes();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let count_only = self.count_only;
        match self.limit {
            1 if !count_only => RangeRequest { key: key(&self.prefix, from, self.key_size), ..RangeRequest::default() },
            0 | 1 => RangeRequest {
                key: self.prefix.clone().into(),
                range_end: end.into(),
                limit: self.limit,
                count_only,
                ..RangeRequest::default()
            },
            limit => RangeRequest {
                key: key(&self.prefix, from, self.key_size),
                range_end: end.into(),
                limit,
                count_only,
                ..RangeRequest::default()
            },
        }
    }
}
