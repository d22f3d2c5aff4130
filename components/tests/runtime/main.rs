//! The controller runtime against a scripted server: a real gRPC service on loopback whose every answer the test gives.

mod client;
mod controller;
mod election;
mod reflector;
mod scripted;
