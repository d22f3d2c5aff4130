//! The controller manager as a program: caches, election, controllers.
//!
//! Invariants: a candidate that is not the leader keeps its caches warm and writes nothing; a new leader first lets its
//! caches come to everything that was written before it became the leader; a leader that was stopped and wakes when its
//! Lease may have run out sends no further write of a controller. (Events are told all the same: they change nothing.)

use std::collections::BTreeMap;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::caches::Informers;
use super::tools::Tools;
use super::wiring::Controllers;
use super::{node_lifecycle, pod_gc};
use crate::client::{Client, Fence};
use crate::clock::SharedClock;
use crate::runtime::{ElectionConfig, ElectionError, LeaderElection, Outcome, Recorder, RecorderTask};

/// The components that Events of this program name as their source.
const SOURCES: &[&str] = &[
    "deployment-controller",
    "replicaset-controller",
    "node-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
    "namespace-controller",
    "controllermanager",
    "garbage-collector-controller",
    "resourcequota-controller",
    "controller-manager",
];

/// What a controller manager may be told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How patiently nodes are waited for.
    pub nodes: node_lifecycle::Timing,
    /// How patiently pods are collected.
    pub pods: pod_gc::Timing,
    /// The authority of the server's certificate, PEM, for pods to know the server by; `None`: not published.
    pub root_ca: Option<String>,
    /// The Lease to lead by; `None`: work without asking.
    pub election: Option<ElectionConfig>,
}

/// Why a controller manager ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The election cannot be held.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// Another candidate leads, or none could be asked for too long: a fresh start is the way back.
    #[error("the controller manager has lost its lease")]
    LeaseLost,
}

/// One recorder for each source of Events.
pub(super) struct Recorders {
    writer: Client,
    clock: SharedClock,
    recorders: BTreeMap<&'static str, Recorder>,
}

impl Recorders {
    /// Events go by one client, what controllers write by another.
    fn new(client: &Client, writer: &Client, clock: &SharedClock) -> (Self, Vec<RecorderTask>) {
        let mut tasks = Vec::new();
        let mut recorders = BTreeMap::new();
        for &source in SOURCES {
            let (recorder, task) = Recorder::new(client, source, "", clock.clone());
            recorders.insert(source, recorder);
            tasks.push(task);
        }
        (Recorders { writer: writer.clone(), clock: clock.clone(), recorders }, tasks)
    }

    /// What a controller is given, with Events in its own name.
    pub(super) fn tools(&self, source: &str) -> Tools {
        let recorder = self.recorders.get(source).expect("every controller is among the sources");
        Tools { client: self.writer.clone(), clock: self.clock.clone(), recorder: recorder.clone() }
    }
}

/// Runs a controller manager until told to stop. `ready` is called once its caches have synced.
pub async fn run(
    options: Options,
    client: Client,
    clock: SharedClock,
    shutdown: CancellationToken,
    ready: impl FnOnce(),
) -> Result<(), Error> {
    // What the controllers write through: shut while this process does not lead.
    let fence = Fence::shut();
    let writer = if options.election.is_some() { client.fenced(fence.clone()) } else { client.clone() };
    let (recorders, recorder_tasks) = Recorders::new(&client, &writer, &clock);
    let mut informers = Informers::new(&client);
    let caches = informers.caches();
    let controllers = Controllers::wire(&options, &recorders, &mut informers);
    let recorder = recorders.tools("controller-manager").recorder;

    let stop = CancellationToken::new();
    let _stop_on_drop = stop.clone().drop_guard();
    let mut tasks = JoinSet::new();
    informers.spawn(&mut tasks, &stop);
    for task in recorder_tasks {
        tasks.spawn(task.run(stop.clone()));
    }

    let work = async |token: CancellationToken| {
        let written_before = client.seen_revision();
        tokio::select! {
            () = token.cancelled() => return,
            // A feeder only ends when the program does.
            _ = caches.catch_up(&client, written_before) => {}
        }
        controllers.run(token).await;
    };
    let outcome = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        _ = caches.wait_synced() => {
            ready();
            match options.election.clone() {
                None => {
                    Box::pin(work(shutdown.clone())).await;
                    Ok(())
                }
                Some(config) => {
                    let election = LeaderElection::new(&client, config, clock).recorder(recorder).fence(fence);
                    match Box::pin(election.run(shutdown.clone(), |token| Box::pin(work(token)))).await {
                        Ok(Outcome::Lost) => Err(Error::LeaseLost),
                        Ok(Outcome::Stopped | Outcome::Finished) => Ok(()),
                        Err(error) => Err(error.into()),
                    }
                }
            }
        }
    };
    stop.cancel();
    while tasks.join_next().await.is_some() {}
    outcome
}
