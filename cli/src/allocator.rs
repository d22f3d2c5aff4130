//! The allocator of the process, where the feature `jemalloc` is on: jemalloc in the server, the system's in all others.
//!
//! A request to the server makes and frees dozens of blocks above the size that glibc keeps by thread, which costs a
//! quarter of its time; the other processes are small, and stay so with the system's (docs/decisions/0004-allocator.md).
//!
//! Invariant: which one it is is settled before anything is allocated and never changes, so that every block goes back to
//! where it came from.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use tikv_jemallocator::Jemalloc;

/// The two allocators, and which of them serves.
struct Chosen {
    is_jemalloc: AtomicBool,
}

#[global_allocator]
static CHOSEN: Chosen = Chosen { is_jemalloc: AtomicBool::new(false) };

/// One arena, since most is served from what each thread keeps; what is free goes back to the system after a second, by a
/// thread of its own, so that it does also when nothing more is asked for; blocks of 4 MiB and more go at once.
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static OPTIONS: Text = Text(
    c"background_thread:true,max_background_threads:1,narenas:1,dirty_decay_ms:1000,muzzy_decay_ms:0,oversize_threshold:4194304".as_ptr(),
);

/// A text of C.
#[repr(transparent)]
struct Text(*const c_char);

// Safety: it points to a constant.
unsafe impl Sync for Text {}

/// Runs ahead of everything in Rust that allocates: glibc hands the arguments to these functions, as the standard library
/// relies on too, and calls them by their numbers, of which its own is the next.
#[used]
#[unsafe(link_section = ".init_array.00098")]
static CHOOSE: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = choose;

extern "C" fn choose(count: c_int, arguments: *const *const c_char, _environment: *const *const c_char) {
    // Safety: `count` arguments stand there, each ended by a zero.
    let is_server = count > 1 && unsafe { CStr::from_ptr(*arguments.add(1)) } == c"server";
    CHOSEN.is_jemalloc.store(is_server, Ordering::Relaxed);
}

impl Chosen {
    fn is_jemalloc(&self) -> bool {
        self.is_jemalloc.load(Ordering::Relaxed)
    }
}

// Safety: each block is made, changed and freed by the same allocator, whose rules are those of the trait.
unsafe impl GlobalAlloc for Chosen {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Safety: the caller's.
        unsafe { if self.is_jemalloc() { Jemalloc.alloc(layout) } else { System.alloc(layout) } }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // Safety: the caller's.
        unsafe { if self.is_jemalloc() { Jemalloc.alloc_zeroed(layout) } else { System.alloc_zeroed(layout) } }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Safety: the caller's, and the block is of the allocator that serves.
        unsafe { if self.is_jemalloc() { Jemalloc.dealloc(block, layout) } else { System.dealloc(block, layout) } }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Safety: the caller's, and the block is of the allocator that serves.
        unsafe {
            if self.is_jemalloc() { Jemalloc.realloc(block, layout, size) } else { System.realloc(block, layout, size) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_give_grow_and_take_blocks() {
        for is_jemalloc in [false, true] {
            let chosen = Chosen { is_jemalloc: AtomicBool::new(is_jemalloc) };
            for (size, align) in [(1, 1), (100, 8), (5000, 64), (5 << 20, 4096)] {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                // Safety: the block is used within its size, and freed with the layout that it has last.
                unsafe {
                    let block = chosen.alloc_zeroed(layout);
                    assert!(!block.is_null() && block.addr().is_multiple_of(align));
                    assert_eq!((*block, *block.add(size - 1)), (0, 0));
                    *block = 7;
                    let block = chosen.realloc(block, layout, size * 2);
                    assert_eq!(*block, 7);
                    chosen.dealloc(block, Layout::from_size_align(size * 2, align).expect("a layout"));
                }
            }
        }
    }

    #[test]
    fn tests_are_no_server() {
        assert!(!CHOSEN.is_jemalloc());
    }
}
