//! SPDY/3.1 as far as forwarded ports need it: kubectl speaks it within a WebSocket (`SPDY/3.1+portforward.k8s.io`).
//!
//! * [`dictionary`]: what headers are compressed against
//! * [`frame`]: frames to and from bytes; pure

mod dictionary;
pub(super) mod frame;
