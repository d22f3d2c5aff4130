//! The log: the truth and the history of the store, in append-only segments.
//!
//! One frame per commit group, in frames one record per write. Frames carry a dense sequence number, so a hole is
//! never taken for an end. The format, byte by byte, is in `docs/storage-format.md`.
//!
//! Invariants: a frame is written once and never changed; segments are filled in the order of their numbers; what was
//! durable is either read back whole or named as damaged.

pub mod record;

pub mod frame;

pub mod segment;

pub mod append;

pub mod read;

pub mod recover;

mod keeper;

mod runs;

pub use append::{Appender, LogOptions};
pub use frame::FrameBuilder;
pub use read::{Cursor, FrameView};
pub use record::{KeyRecord, LogRecord};
pub use recover::{Recovered, open};
pub(in crate::storage) use runs::runs;
pub use segment::{Location, Segment, SegmentId, Segments};
