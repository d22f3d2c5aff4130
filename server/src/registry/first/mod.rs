//! What is there from the start, and what the server keeps of itself.
//!
//! * [`objects`]: namespaces, system classes, the default policy, whom this server believes
//! * [`api_service`](mod@api_service): the service at which the API itself is reached

mod api_service;
mod objects;

pub use api_service::ApiService;
