//! The images that are part of the program itself: small, without an async runtime, stopped by SIGTERM at once.
//!
//! * [`http`]: the web server behind `soscscs/myapp`
//! * [`entry`]: which built-in is meant; pause, sleep, crash

mod entry;
mod http;

pub use entry::{Builtin, UnknownBuiltin, run};
