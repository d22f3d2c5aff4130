//! Shows logs: one after the other, or, when they are followed, all together.

use std::io::{self, Write};
use std::process::ExitCode;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use listwatch_components::client::{Error, LogParams};

use super::lines::Lines;
use super::sources::Source;
use crate::commands::failure::Failure;
use crate::commands::session::{Session, kind_named};
use crate::terminal::tell;

/// What is to be shown, and how.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) sources: Vec<Source>,
    /// The same for each, but for the container.
    pub(super) params: LogParams,
    pub(super) prefix: bool,
    pub(super) since: Option<Timestamp>,
    pub(super) timestamps: bool,
    /// 0: all.
    pub(super) limit_bytes: i64,
    pub(super) ignore_errors: bool,
}

/// Shows everything.
pub(super) async fn show(session: &Session, streams: &Streams) -> Result<ExitCode, Failure> {
    let failed = |failure: Failure| {
        if streams.ignore_errors {
            tell!("{}", failure.text());
            return Ok(());
        }
        Err(failure)
    };
    if streams.params.follow {
        let mut open: FuturesUnordered<_> =
            streams.sources.iter().map(|source| one(session, streams, source)).collect();
        while let Some(outcome) = open.next().await {
            outcome.or_else(failed)?;
        }
    } else {
        for source in &streams.sources {
            one(session, streams, source).await.or_else(failed)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn one(session: &Session, streams: &Streams, source: &Source) -> Result<(), Failure> {
    let prefix =
        if streams.prefix { format!("[pod/{}/{}] ", source.pod.name, source.container) } else { String::new() };
    let limit = streams.since.and(usize::try_from(streams.limit_bytes).ok()).filter(|limit| *limit > 0);
    let mut lines = Lines::new(prefix, streams.since, streams.timestamps, limit);
    let params = LogParams { container: source.container.clone(), ..streams.params.clone() };
    let mut log = session.api(kind_named("pods")?).log(&source.pod, &params).await?;
    // Lines are kept whole only where that matters: what a lone container writes is shown as it comes.
    let is_plain = !streams.prefix && streams.since.is_none() && streams.sources.len() == 1;
    loop {
        let piece = match log.next().await {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(error) => {
                print(&lines.finish())?;
                return Err(Error::into(error));
            }
        };
        if is_plain {
            print(&piece)?;
        } else {
            print(&lines.take(&piece))?;
        }
    }
    print(&lines.finish())
}

fn print(bytes: &[u8]) -> Result<(), Failure> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}
