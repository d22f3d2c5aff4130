//! Gives back to the system what a burst has left behind.
//!
//! The allocator keeps the pages of what was freed, for the next burst: hundreds of MiB after many readers of a long list
//! have gone. They are given back when they have lain idle from one look to the next, so that a load that goes on keeps
//! what it uses again and again.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How often is looked. What lies idle from one look to the next is not needed soon.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// So much may lie idle: below it, giving back costs more than it brings.
const IDLE_BYTES_MAX: usize = 32 << 20;

/// Looks at each interval until stopped.
pub(super) async fn run(stopping: CancellationToken) {
    let mut idle = Idle::default();
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
        let looked = tokio::task::spawn_blocking(move || {
            idle.look(allocator::resident_bytes(), allocator::used_bytes, allocator::give_back);
            idle
        });
        match looked.await {
            Ok(after) => idle = after,
            Err(_) => return tracing::error!("looking at the memory panicked"),
        }
    }
}

/// What is known from one look to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Idle {
    /// So much was resident when the last look found nothing to do: what is not above it needs no closer look.
    calm: usize,
    /// So much lay idle at the last look.
    last: usize,
    /// So much stayed idle when all was given back that could be: holes smaller than pages.
    stuck: usize,
}

impl Idle {
    /// Looks at what is resident and, if that has grown, at what of it is used; gives the rest back if it lay idle at the
    /// last look as well.
    fn look(&mut self, resident: usize, used: impl Fn() -> usize, give_back: impl FnOnce() -> usize) {
        if resident <= self.calm.saturating_add(IDLE_BYTES_MAX) && self.last == 0 {
            self.calm = self.calm.min(resident).max(1);
            return;
        }
        let idle = resident.saturating_sub(used());
        let bound = self.stuck.saturating_add(IDLE_BYTES_MAX);
        if idle <= bound {
            self.last = 0;
            // It is in use: nothing tells when it no longer is but another look.
            return;
        }
        if self.last <= bound {
            self.last = idle;
            return;
        }
        let resident = give_back();
        (self.calm, self.last) = (resident, 0);
        self.stuck = resident.saturating_sub(used());
        tracing::debug!(idle, resident, "memory given back");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod allocator {
    /// What of the process is in memory and of no file.
    pub(super) fn resident_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let mut pages = statm.split_ascii_whitespace().skip(1).map(|text| text.parse::<usize>().unwrap_or(0));
        let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
        resident.saturating_sub(shared).saturating_mul(rustix::param::page_size())
    }

    /// What the program has asked for and not freed.
    pub(super) fn used_bytes() -> usize {
        // Safety: the call takes nothing and locks what it reads.
        let info = unsafe { libc::mallinfo2() };
        info.uordblks.saturating_add(info.hblkhd)
    }

    /// Gives all whole pages back that nothing stands on; answers what is resident then.
    pub(super) fn give_back() -> usize {
        // Safety: the call takes no pointer and locks what it touches.
        unsafe { libc::malloc_trim(0) };
        resident_bytes()
    }
}

/// Other allocators see to it themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod allocator {
    pub(super) fn resident_bytes() -> usize {
        0
    }

    pub(super) fn used_bytes() -> usize {
        0
    }

    pub(super) fn give_back() -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Looks with these figures; whether memory was given back, and then so much is resident.
    fn look(idle: &mut Idle, resident: usize, used: usize, after: usize) -> bool {
        let mut given = false;
        idle.look(
            resident * MIB,
            || used * MIB,
            || {
                given = true;
                after * MIB
            },
        );
        given
    }

    #[test]
    fn what_lies_idle_for_two_looks_is_given_back() {
        let mut idle = Idle::default();
        assert!(!look(&mut idle, 600, 100, 0), "it may be a breath of a load that goes on");
        assert!(look(&mut idle, 600, 100, 110));
        assert_eq!(idle, Idle { calm: 110 * MIB, last: 0, stuck: 10 * MIB });
        for _ in 0..3 {
            assert!(!look(&mut idle, 120, 100, 0), "there is nothing to give");
        }
        assert!(!look(&mut idle, 400, 390, 0) && !look(&mut idle, 400, 390, 0), "it is in use");
        assert!(!look(&mut idle, 400, 100, 0), "freed since the last look");
        assert!(look(&mut idle, 400, 100, 105));
    }

    #[test]
    fn holes_that_cannot_be_given_back_are_not_asked_for_again() {
        let mut idle = Idle::default();
        assert!(!look(&mut idle, 900, 500, 0));
        assert!(look(&mut idle, 900, 500, 800), "300 MiB are in holes");
        for _ in 0..3 {
            assert!(!look(&mut idle, 860, 560, 0));
        }
        assert!(!look(&mut idle, 1200, 500, 0));
        assert!(look(&mut idle, 1200, 500, 800));
    }

    #[test]
    fn a_load_that_breathes_keeps_what_it_uses() {
        let mut idle = Idle::default();
        for _ in 0..5 {
            assert!(!look(&mut idle, 600, 100, 0));
            assert!(!look(&mut idle, 600, 590, 0));
        }
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn what_is_freed_counts_as_idle_until_it_is_given_back() {
        // Below the size that goes back by itself, with something behind it that stays, as after a burst.
        let burst: Vec<Vec<u8>> = (0..4096).map(|_| vec![1; 32 << 10]).collect();
        let kept: Vec<Vec<u8>> = burst.into_iter().step_by(64).collect();
        let before = allocator::resident_bytes();
        assert!(before > kept.len() * (32 << 10));
        let after = allocator::give_back();
        assert!(after + 64 * MIB < before, "{before} bytes before, {after} after");
    }
}
