//! A line that says what is waited for, and for how long already.
//!
//! It stands on standard error, on a terminal alone, and is gone when the waiting is over: what a program reads is never
//! touched by it.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Waiting shorter than this is not worth a line.
const TICK: Duration = Duration::from_millis(120);

/// The line; it goes with this value.
#[derive(Debug)]
pub(crate) struct Waiting(ProgressBar);

impl Waiting {
    /// Begins to say that `what` is waited for.
    pub(crate) fn begin(what: impl Into<String>) -> Self {
        let target =
            if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{spinner} waiting for {msg} ({elapsed})");
        bar.set_style(style.expect("a template without a fault"));
        bar.set_message(what.into());
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Waiting(bar)
    }

    /// Prints something while the line stands aside.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
