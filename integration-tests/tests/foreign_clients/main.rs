//! Clients of Kubernetes that know nothing of us, over REST: client-go's informer, the Python package, kube-rs' watcher,
//! reflector and Controller. The server is killed, their connections are cut, they stand still while much happens, and
//! history is expired under them: every change is told once and in order while history is there, and after an expiry
//! exactly the difference.
//!
//! A client is a program that prints a JSON line for each change it was told. Where a program cannot be had the test says
//! so and passes, unless `CI=true` demands it.

mod programs;
mod stage;
mod told;

use listwatch_integration_tests::seed;

use programs::Program;
use stage::Stage;

async fn outlives(program: Program, name: &str) {
    let seed = seed(name);
    Box::pin(Stage::set(program, seed)).await.outlive_everything().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_go_with_streaming_lists() {
    let Some(program) = programs::go(&[]) else { return };
    outlives(program, "client_go_with_streaming_lists").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_go_with_lists() {
    let Some(program) = programs::go(&["-list"]) else { return };
    outlives(program, "client_go_with_lists").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_go_that_asks_for_protobuf() {
    let Some(program) = programs::go(&["-protobuf"]) else { return };
    outlives(program, "client_go_that_asks_for_protobuf").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_package() {
    let Some(program) = programs::python() else { return };
    outlives(program, "the_python_package").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_rs_with_lists() {
    outlives(programs::kube_rs("list"), "kube_rs_with_lists").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_rs_with_streaming_lists() {
    outlives(programs::kube_rs("stream"), "kube_rs_with_streaming_lists").await;
}

/// A controller is asked about states, not about changes: the last state of each object, and no state it has left.
#[tokio::test(flavor = "multi_thread")]
async fn a_kube_rs_controller() {
    let seed = seed("a_kube_rs_controller");
    Box::pin(Stage::set_controller(programs::kube_rs("controller"), seed)).await.reconcile_everything().await;
}
