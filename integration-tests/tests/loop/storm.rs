//! Everything is killed or stopped at random while a deployment is scaled up and down.

use std::time::{Duration, Instant};

use integration_tests::{eventually, seed};
use listwatch_components::client::Api;
use listwatch_integration_tests as integration_tests;
use listwatch_proto::resource::Object;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::kubelets::Kubelets;
use crate::plane::{LIMIT, Plane, deployment, kind, list, make_node, settled, web};

/// How long it rages.
const STORM: Duration = Duration::from_secs(25);
/// Between two blows.
const CALM: Duration = Duration::from_millis(500);
/// How long what is stopped stands still.
const STOPPED: Duration = Duration::from_millis(1500);
/// What one process may have on its way to the server (`IN_FLIGHT_MAX` of the product).
const ON_THEIR_WAY: usize = 16;

/// What is hit, and the program it is an instance of.
const VICTIMS: [(&str, &str); 5] = [
    ("server", "server"),
    ("scheduler", "scheduler"),
    ("controller-manager", "controller-manager"),
    ("second", "controller-manager"),
    ("controller-manager", "controller-manager"),
];

/// Pods of a storm: never more than the largest number asked for since it was last right, and one batch.
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_makes_no_more_than_one_batch_too_many_and_ends_exactly() -> anyhow::Result<()> {
    let mut random = StdRng::seed_from_u64(seed("a_storm_makes"));
    let mut plane = Plane::of_rivals()?;
    plane.launch_as("controller-manager", "second")?;
    let client = plane.client()?;
    make_node(&client, "node01", json!({})).await?;
    let kubelets = Kubelets::start(&client);
    let deployments = Api::<Object>::of_kind(&client, kind("deployments"));
    deployments.create(&deployment(3, "web:1")).await?;
    settled(&client, 3).await;
    kubelets.count_anew();

    let began = Instant::now();
    let (mut asked, mut blows) = (3, 0);
    while began.elapsed() < STORM {
        let replicas = random.random_range(0..60);
        asked = asked.max(usize::try_from(replicas)?);
        eventually(LIMIT, "it is asked for", || async { deployments.scale(&web(), replicas).await }).await;
        let (name, program) = VICTIMS[random.random_range(0..VICTIMS.len())];
        if random.random_bool(0.7) {
            plane.processes.get_mut(name).expect("it runs").kill();
        } else {
            plane.processes[name].pause();
            tokio::time::sleep(STOPPED).await;
            plane.processes[name].resume();
        }
        restart_what_has_ended(&mut plane, name, program)?;
        blows += 1;
        tokio::time::sleep(CALM).await;
        if random.random_bool(0.2) {
            settled(&client, usize::try_from(replicas)?).await;
            assert!(kubelets.most() <= asked + ON_THEIR_WAY, "{} pods at once, {asked} asked for", kubelets.most());
            kubelets.count_anew();
            asked = usize::try_from(replicas)?;
        }
    }
    for (name, program) in VICTIMS {
        restart_what_has_ended(&mut plane, name, program)?;
    }
    assert!(blows > 5, "only {blows} blows");
    assert!(kubelets.most() <= asked + ON_THEIR_WAY, "{} pods at once, {asked} asked for", kubelets.most());
    eventually(LIMIT, "it is asked for", || async { deployments.scale(&web(), 7).await }).await;
    settled(&client, 7).await;
    assert_eq!(list(&client, "replicasets").await.map_err(anyhow::Error::msg)?.len(), 1, "one template, one set");
    Ok(())
}

/// As a supervisor does: also a leader that has lost its Lease ends, and is started again.
fn restart_what_has_ended(plane: &mut Plane, name: &'static str, program: &'static str) -> anyhow::Result<()> {
    let ended =
        |plane: &mut Plane, name| plane.processes.get_mut(name).expect("it was started").wait(Duration::ZERO).is_ok();
    if ended(plane, name) {
        plane.launch_as(program, name)?;
    }
    for other in ["controller-manager", "second"] {
        if ended(plane, other) {
            plane.launch_as("controller-manager", other)?;
        }
    }
    Ok(())
}
