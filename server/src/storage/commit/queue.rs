//! The queue of requests and the passing on of the lead.
//!
//! Invariants: while requests wait, somebody leads or has been told to; a caller that was told to lead and goes away
//! leads before it goes.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::request::{Class, Reply, Request};
use crate::storage::Error;

/// Requests that may wait; beyond it they are refused as too many, before memory is the limit.
pub const QUEUE_REQUESTS_MAX: usize = 16 << 10;

/// What leads a group; the queue calls it and knows no more of it.
pub trait Lead: Send + Sync {
    /// Takes requests by [`Queue::pop`] and completes each.
    fn lead(&self, queue: &Queue);

    /// [`Lead::lead`] panicked: nobody knows what it has done, so everything from now on must be refused.
    fn panicked(&self);
}

/// Requests that wait for a leader.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<Waiting>,
    /// Requests that were ever taken out.
    taken: AtomicUsize,
    /// Requests of the last group.
    last_group: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    slots: VecDeque<Arc<Slot>>,
    leading: bool,
}

/// One request with its place for the answer.
#[derive(Debug)]
struct Slot {
    class: Class,
    request: Mutex<Option<Request>>,
    state: Mutex<SlotState>,
}

#[derive(Debug)]
enum SlotState {
    /// In the queue, or in the group under way.
    Waiting(Option<Waker>),
    /// Told to lead.
    Lead,
    /// Answered.
    Done(Result<Reply, Error>),
    /// The caller has its answer, or has gone.
    Gone,
}

/// A request in the leader's hands. Dropped without an answer, as by a panic, its caller is told that the store is
/// done for.
#[derive(Debug)]
pub struct Taken {
    slot: Arc<Slot>,
}

impl Taken {
    /// The request; taken once.
    pub fn take(&self) -> Request {
        self.slot.request.lock().take().expect("a request is evaluated once")
    }

    /// Its class.
    pub fn class(&self) -> Class {
        self.slot.class
    }

    /// Answers, and wakes the caller.
    pub fn complete(self, answer: Result<Reply, Error>) {
        self.slot.complete(answer);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.slot.is_unanswered() {
            self.slot.complete(Err(Error::Poisoned { reason: "a commit panicked".into() }));
        }
    }
}

impl Slot {
    fn is_unanswered(&self) -> bool {
        matches!(*self.state.lock(), SlotState::Waiting(_) | SlotState::Lead)
    }

    fn complete(&self, answer: Result<Reply, Error>) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, SlotState::Done(answer)) {
            SlotState::Waiting(Some(waker)) => {
                drop(state);
                waker.wake();
            }
            SlotState::Gone => *state = SlotState::Gone,
            _ => {}
        }
    }

    /// Tells the caller to lead; false if it has gone.
    fn promote(&self) -> bool {
        let mut state = self.state.lock();
        match &mut *state {
            SlotState::Waiting(waker) => {
                let waker = waker.take();
                *state = SlotState::Lead;
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
                true
            }
            _ => false,
        }
    }
}

impl Queue {
    /// Puts a request into the queue. The answer is a ticket to wait on; its caller may be told to lead.
    pub fn submit(&self, request: Request) -> Result<Ticket, Error> {
        let class = request.class();
        let mut state = self.state.lock();
        if state.slots.len() >= QUEUE_REQUESTS_MAX {
            return Err(Error::Busy);
        }
        let lead = !state.leading;
        let slot = Arc::new(Slot {
            class,
            request: Mutex::new(Some(request)),
            state: Mutex::new(if lead { SlotState::Lead } else { SlotState::Waiting(None) }),
        });
        state.leading = true;
        state.slots.push_back(slot.clone());
        Ok(Ticket { slot })
    }

    /// The next request if it is of the class (any, for `None`).
    pub fn pop(&self, class: Option<Class>) -> Option<Taken> {
        let mut state = self.state.lock();
        let next = state.slots.front()?;
        if class.is_some_and(|class| class != next.class || class == Class::Alone) {
            return None;
        }
        let slot = state.slots.pop_front()?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(Taken { slot })
    }

    /// Whether it is worth the while to let others come before a group is led: they have come together of late. A lone
    /// writer waits for nobody.
    fn is_lively(&self) -> bool {
        self.last_group.load(Ordering::Relaxed) > 1 || self.len() > 1
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.state.lock().slots.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leads one group, then passes the lead on, or goes on if nobody is there to take it.
    fn lead(&self, leader: &dyn Lead) {
        loop {
            let before = self.taken.load(Ordering::Relaxed);
            if catch_unwind(AssertUnwindSafe(|| leader.lead(self))).is_err() {
                leader.panicked();
            }
            // Nobody else takes while this one leads.
            self.last_group.store(self.taken.load(Ordering::Relaxed).wrapping_sub(before), Ordering::Relaxed);
            let mut state = self.state.lock();
            if state.slots.is_empty() {
                state.leading = false;
                return;
            }
            if state.slots.iter().any(|slot| slot.promote()) {
                return;
            }
        }
    }
}

/// A caller's place in the queue.
#[derive(Debug)]
pub struct Ticket {
    slot: Arc<Slot>,
}

/// What a caller is told.
#[derive(Debug)]
pub enum Told {
    /// Lead a group, then ask again.
    Lead,
    /// The answer.
    Answer(Result<Reply, Error>),
}

impl Ticket {
    /// Waits on this thread, leading if told to.
    pub fn wait(self, queue: &Queue, leader: &dyn Lead) -> Result<Reply, Error> {
        let mut guard = Guard { ticket: self, queue, leader, leads: false };
        loop {
            match park_on(&mut guard.ticket) {
                Told::Lead => queue.lead(leader),
                Told::Answer(answer) => return answer,
            }
        }
    }

    /// Waits as a task, leading in place if told to. Dropped, the request is done all the same.
    pub async fn wait_async(self, queue: &Queue, leader: &dyn Lead) -> Result<Reply, Error> {
        let mut guard = Guard { ticket: self, queue, leader, leads: false };
        loop {
            match (&mut guard.ticket).await {
                Told::Lead => {
                    if queue.is_lively() {
                        // Whoever is about to write gets there first: a group costs its sync, however small it is.
                        guard.leads = true;
                        tokio::task::yield_now().await;
                        guard.leads = false;
                    }
                    in_place(|| queue.lead(leader));
                }
                Told::Answer(answer) => return answer,
            }
        }
    }
}

impl Future for Ticket {
    type Output = Told;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Told> {
        let mut state = self.slot.state.lock();
        match &mut *state {
            SlotState::Waiting(waker) => {
                match waker {
                    Some(known) => known.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            SlotState::Lead => {
                // From here on the leader answers itself like any other.
                *state = SlotState::Waiting(None);
                Poll::Ready(Told::Lead)
            }
            SlotState::Done(_) => match std::mem::replace(&mut *state, SlotState::Gone) {
                SlotState::Done(answer) => Poll::Ready(Told::Answer(answer)),
                _ => unreachable!("the state was matched"),
            },
            SlotState::Gone => unreachable!("a ticket is not waited on after its answer"),
        }
    }
}

/// Polls on this thread, parking it in between.
fn park_on<F: Future + Unpin>(mut future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match Pin::new(&mut future).poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Leads before it goes, if told to: else the queue would stand still.
struct Guard<'a> {
    ticket: Ticket,
    queue: &'a Queue,
    leader: &'a dyn Lead,
    /// It has taken the lead and has not led yet.
    leads: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let told = std::mem::replace(&mut *self.ticket.slot.state.lock(), SlotState::Gone);
        if self.leads || matches!(told, SlotState::Lead) {
            in_place(|| self.queue.lead(self.leader));
        }
    }
}

/// Runs what blocks, giving the thread's other tasks away first where the runtime can do that.
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests;
