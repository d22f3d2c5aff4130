//! The turns of a connection of HTTP/2: what it does each time it is woken.
//!
//! A request whose answer is ready at once is answered in the turn in which it was read: no task is made for it, no other
//! thread is woken, and its frames go out with those of the turn. Requests that come together, and those that may hold
//! up others beside them, are tasks of their own.
//!
//! Invariants: the connection's own task works on at most one request beyond a turn, and gives it a task of its own when
//! another comes; a panic ends the request, not the connection; a turn that does not end by itself is cut, so that other
//! connections get theirs.

use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};

use super::gather::Gatherer;

/// Rounds of one turn at most: more than requests that follow one another closely need, and too few to keep others off
/// the thread for long.
const ROUNDS_MAX: usize = 16;

/// The work on one request.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes the work on requests from HTTP, and does it in the connection's turns. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Turns {
    begun: Arc<Mutex<Begun>>,
}

/// Requests that have been read and not been worked on.
#[derive(Default)]
struct Begun {
    works: Vec<Work>,
    /// Whether one of them may wait on its thread, as for the disk.
    may_block: bool,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Turns {
    fn execute(&self, work: F) {
        self.begun.lock().works.push(Box::pin(work));
    }
}

impl Turns {
    /// Tells that the work that comes next may wait on its thread: it is not done where others would wait with it.
    pub(super) fn next_may_block(&self) {
        self.begun.lock().may_block = true;
    }

    /// Does the work of the connection, whose requests come to these turns; at the end of each, what the gatherer holds is
    /// written out. What is kept outlives this future: a connection that is asked to end still ends it by its own means.
    pub(super) async fn run<S, T, E>(
        &self,
        gatherer: &Gatherer<S>,
        kept: &mut Kept,
        mut connection: Pin<&mut impl Future<Output = Result<T, E>>>,
    ) -> Result<T, E>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        E: From<io::Error>,
    {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        let mut alarm = std::pin::pin!(None);
        poll_fn(|outer| {
            bell.begin(outer.waker());
            let mut context = Context::from_waker(&waker);
            for _ in 0..ROUNDS_MAX {
                kept.go_on(&mut context);
                if let Poll::Ready(ended) = connection.as_mut().poll(&mut context) {
                    // Its last words go if they can go without waiting.
                    let _ = gatherer.drain(&mut context);
                    return Poll::Ready(ended);
                }
                let has_worked = kept.begin(std::mem::take(&mut *self.begun.lock()), &mut context);
                // The frames of an answer go out together with what else this turn has to say.
                if !has_worked {
                    gatherer.heed(alarm.as_mut(), &mut context)?;
                    let has_room_again = matches!(gatherer.drain(&mut context)?, Poll::Ready(true));
                    if !has_room_again && bell.is_silent() {
                        return Poll::Pending;
                    }
                }
                if !tokio::task::coop::has_budget_remaining() {
                    break;
                }
            }
            let _ = gatherer.drain(&mut context);
            bell.end();
            outer.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

/// The request that the connection's task works on itself, if there is one.
#[derive(Default)]
pub(super) struct Kept {
    work: Option<Work>,
    /// Held by each request that has a task of its own.
    others: Arc<()>,
}

impl Kept {
    fn go_on(&mut self, context: &mut Context<'_>) {
        if let Some(work) = &mut self.work
            && is_done(work, context)
        {
            self.work = None;
        }
    }

    /// Begins the work on requests. Whether there was any.
    fn begin(&mut self, begun: Begun, context: &mut Context<'_>) -> bool {
        let Begun { mut works, may_block } = begun;
        if works.is_empty() {
            return false;
        }
        if let Some(before) = self.work.take() {
            self.spawn(before);
        }
        let is_alone = works.len() == 1 && Arc::strong_count(&self.others) == 1;
        if is_alone || (works.len() == 1 && !may_block) {
            self.work = works.pop();
            self.go_on(context);
        }
        for work in works {
            self.spawn(work);
        }
        true
    }

    fn spawn(&self, work: Work) {
        let other = self.others.clone();
        // Its owner is the stream of HTTP/2, which ends with its connection, and its work with it.
        tokio::spawn(async move {
            work.await;
            drop(other);
        });
    }
}

/// Works on a request. One that panics is done; whoever waits for the answer is told by the end of its stream.
fn is_done(work: &mut Work, context: &mut Context<'_>) -> bool {
    catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context).is_ready())).unwrap_or(true)
}

const SLEEPS: u8 = 0;
const AT_WORK: u8 = 1;
const RUNG: u8 = 2;

/// What wakes a connection. While a turn lasts it is only noted, and heard at the turn's end.
struct Bell {
    state: AtomicU8,
    task: Mutex<Waker>,
}

impl Default for Bell {
    fn default() -> Self {
        Bell { state: AtomicU8::new(SLEEPS), task: Mutex::new(Waker::noop().clone()) }
    }
}

impl Bell {
    fn begin(&self, task: &Waker) {
        self.state.store(AT_WORK, Ordering::Release);
        self.task.lock().clone_from(task);
    }

    /// Ends the turn, if nobody has rung in it; else it goes on.
    fn is_silent(&self) -> bool {
        let ended = self.state.compare_exchange(AT_WORK, SLEEPS, Ordering::AcqRel, Ordering::Acquire);
        if ended.is_err() {
            self.state.store(AT_WORK, Ordering::Release);
        }
        ended.is_ok()
    }

    fn end(&self) {
        self.state.store(SLEEPS, Ordering::Release);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let note = |state| (state != SLEEPS).then_some(RUNG);
        if self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, note).is_err() {
            let task = self.task.lock().clone();
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gather::gather;
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;
    use tokio::sync::Notify;

    /// A connection that reads in each of its polls what is given to it, until it is given nothing.
    async fn connection(turns: Turns, polls: Arc<AtomicUsize>, mut reads: Vec<Vec<Work>>) -> io::Result<()> {
        reads.reverse();
        poll_fn(|context| {
            polls.fetch_add(1, Ordering::Relaxed);
            let Some(read) = reads.pop() else { return Poll::Ready(Ok(())) };
            for work in read {
                turns.execute(work);
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    async fn run(turns: &Turns, connection: impl Future<Output = io::Result<()>>) {
        let (_stream, gatherer) = gather(tokio::io::empty(), Duration::from_secs(10));
        turns.run(&gatherer, &mut Kept::default(), std::pin::pin!(connection)).await.expect("it ends well");
    }

    fn work(work: impl Future<Output = ()> + Send + 'static) -> Work {
        Box::pin(work)
    }

    fn own_task() -> Option<tokio::task::Id> {
        tokio::task::try_id()
    }

    #[tokio::test]
    async fn an_answer_that_is_ready_is_made_by_the_connections_own_task() {
        let tasks = Arc::new(Mutex::new(Vec::new()));
        let asks = || {
            let tasks = tasks.clone();
            work(async move { tasks.lock().push(own_task()) })
        };
        let (one, two) = (asks(), (asks(), asks()));
        let (turns, polls) = (Turns::default(), Arc::default());
        let own = tokio::spawn(async move {
            run(&turns, connection(turns.clone(), polls, vec![vec![one], vec![two.0, two.1]])).await;
            own_task()
        });
        let own = own.await.expect("no panic");
        while tasks.lock().len() < 3 {
            tokio::task::yield_now().await;
        }
        let tasks = tasks.lock();
        assert_eq!(tasks[0], own, "one that comes alone is answered where it was read");
        assert!(tasks[1..].iter().all(|task| *task != own), "those that come together have tasks of their own");
    }

    #[tokio::test]
    async fn one_that_lasts_makes_way_for_the_next() {
        let (told, done) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
        let slow = {
            let (told, done) = (told.clone(), done.clone());
            work(async move {
                told.notified().await;
                done.lock().push(("slow", own_task()));
            })
        };
        let quick = {
            let done = done.clone();
            work(async move { done.lock().push(("quick", own_task())) })
        };
        let (turns, polls) = (Turns::default(), Arc::default());
        let own = tokio::spawn(async move {
            run(&turns, connection(turns.clone(), polls, vec![vec![slow], vec![quick], vec![]])).await;
            own_task()
        });
        let own = own.await.expect("no panic");
        told.notify_one();
        while done.lock().len() < 2 {
            tokio::task::yield_now().await;
        }
        let done = done.lock();
        assert_eq!(done[0], ("quick", own));
        assert_eq!(done[1].0, "slow");
        assert_ne!(done[1].1, own);
    }

    #[tokio::test]
    async fn one_that_lasts_goes_on_when_the_turns_are_begun_anew() {
        let (told, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let lasting = {
            let (told, done) = (told.clone(), done.clone());
            work(async move {
                told.notified().await;
                done.notify_one();
            })
        };
        let (turns, mut kept) = (Turns::default(), Kept::default());
        let (_stream, gatherer) = gather(tokio::io::empty(), Duration::from_secs(10));
        turns.execute(lasting);
        {
            // As when the server is told to stop: the turns of before are dropped.
            let connection = std::pin::pin!(std::future::pending::<io::Result<()>>());
            assert!(futures::poll!(Box::pin(turns.run(&gatherer, &mut kept, connection))).is_pending());
        }
        told.notify_one();
        let connection = std::pin::pin!(async {
            done.notified().await;
            Ok::<_, io::Error>(())
        });
        let ended = tokio::time::timeout(Duration::from_secs(10), turns.run(&gatherer, &mut kept, connection)).await;
        ended.expect("the request has gone on").expect("it ends well");
    }

    #[tokio::test]
    async fn what_may_block_is_not_done_beside_others() {
        let (done, turns) = (Arc::new(Mutex::new(Vec::new())), Turns::default());
        let blocks = |name: &'static str| {
            let done = done.clone();
            work(async move { done.lock().push((name, own_task())) })
        };
        let (first, second, third) = (blocks("first"), blocks("second"), blocks("third"));
        let own = tokio::spawn(async move {
            let mut kept = Kept::default();
            let mut context = Context::from_waker(Waker::noop());
            kept.begin(Begun { works: vec![first], may_block: true }, &mut context);
            // A request that lasts, on a task of its own.
            let other = kept.others.clone();
            kept.begin(Begun { works: vec![second], may_block: true }, &mut context);
            kept.begin(Begun { works: vec![third], may_block: false }, &mut context);
            drop((other, turns));
            own_task()
        });
        let own = own.await.expect("no panic");
        while done.lock().len() < 3 {
            tokio::task::yield_now().await;
        }
        let done = done.lock();
        assert_eq!(done[0..2], [("first", own), ("third", own)]);
        assert!(done[2].0 == "second" && done[2].1 != own);
    }

    #[tokio::test]
    async fn a_panic_ends_the_request_alone() {
        let turns = Turns::default();
        let reads = vec![vec![work(async { panic!("as the test wants it") })], vec![]];
        run(&turns, connection(turns.clone(), Arc::default(), reads)).await;
    }

    #[tokio::test]
    async fn what_rings_within_a_turn_is_heard_in_it() {
        let (polls, turns) = (Arc::new(AtomicUsize::new(0)), Turns::default());
        let connection = connection(turns.clone(), polls.clone(), (0..5).map(|_| Vec::new()).collect());
        let (_stream, gatherer) = gather(tokio::io::empty(), Duration::from_secs(10));
        let connection = std::pin::pin!(connection);
        let mut kept = Kept::default();
        let mut turn = Box::pin(turns.run(&gatherer, &mut kept, connection));
        assert!(matches!(futures::poll!(turn.as_mut()), Poll::Ready(Ok(()))));
        assert_eq!(polls.load(Ordering::Relaxed), 6);
    }

    #[tokio::test]
    async fn a_turn_without_end_is_cut() {
        let (polls, turns) = (Arc::new(AtomicUsize::new(0)), Turns::default());
        let reads = (0..ROUNDS_MAX * 2).map(|_| Vec::new()).collect();
        let connection = connection(turns.clone(), polls.clone(), reads);
        let (_stream, gatherer) = gather(tokio::io::empty(), Duration::from_secs(10));
        let connection = std::pin::pin!(connection);
        let mut kept = Kept::default();
        let mut turn = Box::pin(turns.run(&gatherer, &mut kept, connection));
        assert!(futures::poll!(turn.as_mut()).is_pending());
        assert_eq!(polls.load(Ordering::Relaxed), ROUNDS_MAX);
        turn.await.expect("it has been woken again, and ends");
    }
}
