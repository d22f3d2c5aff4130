//! The supervisor: one loop that starts the processes of a cluster and keeps them running until it is told to stop.
//!
//! The server is started first; when it is ready, all others at once. Afterwards each is on its own: a server that is
//! started again does not restart anybody.
//!
//! Invariant: only the loop changes the states of components; everything else sends it a message.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::bail;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
};

use super::{
    command::UpArgs,
    component::{Component, State},
    last_words::last_words,
    lifeline::Lifeline,
    listen::{self, Order},
    prepare::{self, Prepared},
    spawn::{self, News},
    spec::{Class, Plan},
};
use crate::terminal::tell;
use crate::{
    cluster::control::{ClusterStatus, Request},
    commands::with_causes,
    programs::program,
};

/// Messages wait here only for the loop's next turn.
const QUEUE: usize = 64;
/// How long a component may take to end after SIGTERM before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(15);
/// How long the pods' processes may take to end: the usual grace and ten seconds.
const PODS_LIMIT: Duration = Duration::from_secs(40);

/// `lw up` in front.
///
/// # Errors
/// If the cluster cannot be prepared, or a component ends again and again before it was ever ready: then everything is
/// stopped again, and the text names the component, what it said last, and its log.
pub(crate) fn up(args: &UpArgs) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let prepared = prepare::prepare(args)?;
    for note in &prepared.notes {
        tell!("{note}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (outcome, lifeline) = runtime.block_on(run(args, &prepared, begun))?;
    drop(runtime);
    if !lifeline.cut_and_wait(PODS_LIMIT) {
        tell!("some processes of pods did not end within {PODS_LIMIT:?}");
        if outcome.is_none() {
            return Ok(ExitCode::FAILURE);
        }
    }
    match outcome {
        None => Ok(ExitCode::SUCCESS),
        Some(failure) => bail!("the cluster did not start: {failure}"),
    }
}

async fn run(args: &UpArgs, prepared: &Prepared, begun: Instant) -> anyhow::Result<(Option<String>, Lifeline)> {
    let lifeline = Lifeline::new()?;
    let plan = &prepared.plan;
    let listener = listen::bind(&plan.layout)?;
    let (send_news, news) = mpsc::channel(QUEUE);
    let (send_orders, orders) = mpsc::channel(QUEUE);
    let now = Instant::now();
    let components = plan.specs().into_iter().map(|spec| Component::new(spec, now)).collect();
    let (publish, status) = watch::channel(ClusterStatus::default());
    let socket = tokio::spawn(listen::serve(listener, send_orders, status.clone()));
    let front = tokio::spawn(super::front::show(args.clone(), plan.clone(), status, begun));
    let supervisor =
        Supervisor { plan, components, lifeline, send_news, publish, server_was_ready: false, failure: None };
    let outcome = supervisor.keep(news, orders).await;
    front.abort();
    socket.abort();
    let _ = std::fs::remove_file(plan.layout.control_socket());
    outcome
}

struct Supervisor<'a> {
    plan: &'a Plan,
    components: Vec<Component>,
    lifeline: Lifeline,
    send_news: mpsc::Sender<News>,
    publish: watch::Sender<ClusterStatus>,
    server_was_ready: bool,
    /// Why the start is given up.
    failure: Option<String>,
}

impl Supervisor<'_> {
    /// Runs the cluster to its end, and hands back why its start was given up, if so, and the lifeline to be cut.
    async fn keep(
        mut self,
        mut news: mpsc::Receiver<News>,
        mut orders: mpsc::Receiver<Order>,
    ) -> anyhow::Result<(Option<String>, Lifeline)> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        self.start_class(Class::Server);
        while self.failure.is_none() {
            self.tell();
            let next = self.next_restart();
            tokio::select! {
                Some(message) = news.recv() => self.hear(message),
                Some(order) = orders.recv() => {
                    if self.obey(order) {
                        break;
                    }
                }
                () = program::sleep_until(next) => self.restart_due(),
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => break,
            }
        }
        if self.failure.is_none() {
            tell!("stopping cluster {:?}", self.plan.layout.name);
        }
        let failure = self.failure.take();
        self.stop_all(&mut news).await;
        Ok((failure, self.lifeline))
    }

    fn start_class(&mut self, class: Class) {
        for index in 0..self.components.len() {
            if self.components[index].spec.class == class && self.components[index].state == State::Stopped {
                self.start(index);
            }
        }
    }

    fn start(&mut self, index: usize) {
        let component = &mut self.components[index];
        let log = self.plan.layout.log(&component.spec.name);
        component.log_from = spawn::log_end(&log);
        let start = spawn::Start {
            args: &component.spec.args,
            log,
            lifeline: self.lifeline.far_fd(),
            index,
            run: component.run + 1,
        };
        match spawn::spawn(&start, self.send_news.clone()) {
            Ok(pid) => component.started(pid, Instant::now()),
            Err(error) => {
                component.failed_to_start(with_causes(error.as_ref()), Instant::now());
                self.judge(index);
            }
        }
    }

    /// Gives the start of the cluster up, if this component has no hope.
    fn judge(&mut self, index: usize) {
        let component = &self.components[index];
        let (Some(why), None) = (component.hopeless(), &self.failure) else { return };
        let log = self.plan.layout.log(&component.spec.name);
        let said = match last_words(&log, component.log_from) {
            words if words.is_empty() => String::new(),
            words => format!(": {words}"),
        };
        self.failure = Some(format!("{why}{said}\nits log is {}", log.display()));
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Ready { index, run, addresses } if self.components[index].run == run => {
                self.components[index].ready(addresses);
                if self.components[index].spec.class == Class::Server && !self.server_was_ready {
                    self.server_was_ready = true;
                    self.start_class(Class::Control);
                    self.start_class(Class::Kubelet);
                }
            }
            News::Ended { index, run, how } if self.components[index].run == run => {
                let at_once = self.components[index].ended(how, Instant::now());
                self.judge(index);
                if at_once && self.failure.is_none() {
                    self.start(index);
                }
            }
            News::Ready { .. } | News::Ended { .. } => {}
        }
    }

    fn next_restart(&self) -> Option<Instant> {
        let due = |c: &Component| if let State::BackOff { until } = c.state { Some(until) } else { None };
        self.components.iter().filter_map(due).min()
    }

    fn restart_due(&mut self) {
        let now = Instant::now();
        for index in 0..self.components.len() {
            if self.components[index].is_due(now) {
                self.start(index);
            }
        }
    }

    /// Takes an order or refuses it. Returns whether the cluster goes down.
    fn obey(&mut self, order: Order) -> bool {
        let down = order.request == Request::Down;
        let outcome = match order.request {
            Request::Status | Request::Down => Ok(String::new()),
            Request::Start(name) => self.with(&name, Self::order_start),
            Request::Stop(name) => self.with(&name, |s, i| s.order_stop(i, false)),
            Request::Restart(name) => self.with(&name, |s, i| s.order_stop(i, true)),
            Request::Kill(name) => self.with(&name, Self::order_kill),
        };
        self.tell();
        let _ = order.taken.send(outcome);
        down
    }

    fn with(
        &mut self,
        name: &str,
        order: impl FnOnce(&mut Self, usize) -> Result<(), String>,
    ) -> Result<String, String> {
        let is = |c: &Component| c.spec.name == name || c.spec.name.strip_prefix("kubelet-") == Some(name);
        let Some(index) = self.components.iter().position(is) else {
            let names: Vec<_> = self.components.iter().map(|c| c.spec.name.as_str()).collect();
            return Err(format!("there is no component {name:?}: there are {}", names.join(", ")));
        };
        order(self, index).map(|()| self.components[index].spec.name.clone())
    }

    fn order_start(&mut self, index: usize) -> Result<(), String> {
        match self.components[index].state {
            State::Stopped | State::BackOff { .. } => self.start(index),
            State::Stopping { .. } => self.components[index].state = State::Stopping { again: true },
            State::Starting | State::Running => {}
        }
        Ok(())
    }

    fn order_stop(&mut self, index: usize, again: bool) -> Result<(), String> {
        match self.components[index].state {
            State::Stopped | State::BackOff { .. } if again => self.start(index),
            State::Stopped => {}
            State::BackOff { .. } => self.components[index].state = State::Stopped,
            State::Starting | State::Running | State::Stopping { .. } => {
                self.components[index].state = State::Stopping { again };
                self.signal(index, Signal::TERM);
            }
        }
        Ok(())
    }

    fn order_kill(&mut self, index: usize) -> Result<(), String> {
        let component = &self.components[index];
        if component.pid == 0 {
            return Err(format!("{} has no process now", component.spec.name));
        }
        self.components[index].killed = true;
        self.signal(index, Signal::KILL);
        Ok(())
    }

    fn signal(&self, index: usize, signal: Signal) {
        if let Some(pid) = i32::try_from(self.components[index].pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    fn status(&self, stopping: bool) -> ClusterStatus {
        let now = Instant::now();
        ClusterStatus {
            name: self.plan.layout.name.clone(),
            data_dir: self.plan.layout.root.display().to_string(),
            supervisor_pid: std::process::id(),
            stopping,
            components: self.components.iter().map(|c| c.status(now)).collect(),
        }
    }

    fn tell(&self) {
        self.publish.send_replace(self.status(false));
    }

    /// Stops class after class; who does not end in time is killed.
    async fn stop_all(&mut self, news: &mut mpsc::Receiver<News>) {
        self.publish.send_replace(self.status(true));
        for class in [Class::Control, Class::Kubelet, Class::Server] {
            let of_class: Vec<_> =
                (0..self.components.len()).filter(|i| self.components[*i].spec.class == class).collect();
            for index in &of_class {
                let _ = self.order_stop(*index, false);
            }
            let deadline = Instant::now() + STOP_LIMIT;
            while of_class.iter().any(|i| self.components[*i].pid != 0) {
                tokio::select! {
                    Some(message) = news.recv() => self.hear(message),
                    () = program::sleep_until(Some(deadline)) => {
                        for index in of_class.iter().filter(|i| self.components[**i].pid != 0) {
                            tell!("{} does not stop: killing it", self.components[*index].spec.name);
                            self.signal(*index, Signal::KILL);
                        }
                        // A killed process always ends: its news are all that is waited for.
                        while of_class.iter().any(|i| self.components[*i].pid != 0) {
                            let Some(message) = news.recv().await else { return };
                            self.hear(message);
                        }
                    }
                }
            }
        }
    }
}
