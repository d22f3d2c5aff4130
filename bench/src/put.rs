//! Writes of one key each.

use bytes::Bytes;
use clap::Args;
use listwatch_proto::etcd::etcdserverpb::{PutRequest, kv_client::KvClient};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::load::{self, LoadArgs};
use crate::stats::Measured;

/// The `put` command.
#[derive(Clone, Debug, Args)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Bytes of a key
    #[arg(long, default_value_t = 24)]
    pub(crate) key_size: usize,
    /// Bytes of a value
    #[arg(long, default_value_t = 256)]
    pub(crate) value_size: usize,
    /// How many different keys are written
    #[arg(long, default_value_t = 100_000)]
    pub(crate) key_space: u64,
    /// The keys' beginning
    #[arg(long, default_value = "/bench/put/")]
    pub(crate) prefix: String,
}

/// Key number `number`, filled up to `size` bytes.
pub(crate) fn key(prefix: &str, number: u64, size: usize) -> Bytes {
    let digits = size.saturating_sub(prefix.len());
    format!("{prefix}{number:0digits$}").into()
}

/// A value that does not compress, the same for the same seed.
pub(crate) fn value(seed: u64, size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes.into()
}

impl PutArgs {
    /// Runs the load.
    pub(crate) async fn run(&self) -> anyhow::Result<Measured> {
        let channels = self.load.connect().await?;
        load::run(&self.load, &channels, |number, channel| {
            let client = KvClient::new(channel);
            let mut random = StdRng::seed_from_u64(number as u64);
            let value = value(number as u64, self.value_size);
            let args = self.clone();
            move |_| {
                let key = key(&args.prefix, random.random_range(0..args.key_space), args.key_size);
                let request = PutRequest { key, value: value.clone(), ..PutRequest::default() };
                let mut client = client.clone();
                async move {
                    client.put(request).await?;
                    Ok(())
                }
            }
        })
        .await
    }
}
