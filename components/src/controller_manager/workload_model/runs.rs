//! Random runs, and what must hold in them.

use jiff::SignedDuration;
use rand::Rng;
use serde_json::{Value, json};

use super::world::{Bounds, Chance, Model, active};
use crate::controller_manager::deployment::revision::REVISION;
use crate::controller_manager::deployment::status::is_complete;
use crate::controller_manager::deployment::template;
use crate::controller_manager::deployment::{Deployment, Set};
use crate::controller_manager::replica_set::create::IN_FLIGHT_MAX;

/// Runs of each kind: a few seconds without optimisation.
const RUNS: u64 = 40;
/// Steps between two edits, at most.
const STEPS_MAX: usize = 40;
/// Rounds in which everything must come to rest.
const ROUNDS_MAX: usize = 400;

/// The seeds of a test: one if `SEED` is set, else fresh ones, each printed before it runs.
fn each_seed(test: &str, run: fn(u64)) {
    let given = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    let seeds = given.map_or_else(|| (0..RUNS).map(|_| rand::random()).collect(), |seed| vec![seed]);
    for seed in seeds {
        println!("seed {seed}: replay with SEED={seed} cargo test -p listwatch-components {test} -- --nocapture");
        run(seed);
    }
}

impl Model {
    /// One step of anybody.
    fn step(&mut self) {
        self.pass(SignedDuration::from_millis(300));
        match self.random.random_range(0..10) {
            0..3 => self.run_deployment(),
            3..6 => {
                let names: Vec<String> = self.head().sets.keys().cloned().collect();
                if !names.is_empty() {
                    let at = self.random.random_range(0..names.len());
                    self.run_set(&names[at]);
                }
            }
            6 if self.random.random_bool(0.2) => self.arrive(usize::MAX),
            _ => self.run_kubelet(),
        }
    }

    /// One step of everybody, nobody lagging.
    fn round(&mut self) {
        self.lag = false;
        let head = self.head();
        head.pods.values().for_each(|pod| self.look_after(pod));
        head.sets.keys().for_each(|name| self.run_set(name));
        self.run_deployment();
        self.lag = true;
    }

    fn steps(&mut self) {
        for _ in 0..self.random.random_range(0..STEPS_MAX) {
            self.step();
        }
    }

    /// Lets nothing more go wrong and runs until nothing changes; then all must be as asked.
    fn settle(&mut self) {
        self.chance = Chance::default();
        self.arrive(usize::MAX);
        for _ in 0..ROUNDS_MAX {
            self.steps();
            let before = self.revision();
            self.pass(SignedDuration::from_secs(61));
            self.round();
            if self.revision() == before {
                return self.exact().unwrap_or_else(|why| panic!("{why}: {}", self.story()));
            }
        }
        panic!("does not come to rest: {}", self.story());
    }

    /// Whether everything is as asked and everybody knows it.
    fn exact(&self) -> Result<(), String> {
        let head = self.head();
        let deployment = Deployment::of(&head.deployment);
        let sets: Vec<Set> = head.sets.values().map(|set| Set::of(set)).collect();
        let current: Vec<&Set> =
            sets.iter().filter(|set| template::same(&set.template, &deployment.template)).collect();
        let [current] = current[..] else { return Err(format!("{} sets of the template", current.len())) };
        let others: i64 = sets.iter().filter(|set| set.uid != current.uid).map(|set| set.replicas + set.present).sum();
        let ready = head.pods.values().filter(|pod| pod.is_active() && pod.ready_since.is_some());
        let ready = ready.filter(|pod| pod.owners[0].uid == current.uid).count();
        let living = head.pods.values().filter(|pod| !pod.is_finished()).count();
        let wanted = usize::try_from(deployment.replicas).expect("not negative");
        let number = head.deployment.object.annotation(REVISION).and_then(|number| number.parse::<i64>().ok());
        let highest = sets.iter().map(Set::revision).max();
        let facts = [
            ("size", current.replicas == deployment.replicas),
            ("pods", (ready, living) == (wanted, wanted)),
            ("nothing of the others", others == 0),
            ("history", sets.len() <= 1 + deployment.history_limit.unwrap_or(usize::MAX)),
            ("revision", number == Some(current.revision()) && number == highest),
            ("noted size", wanted == 0 || current.desired() == Some(deployment.replicas)),
            ("complete", is_complete(&deployment, &deployment.status)),
        ];
        facts.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(format!("not as asked: {what}")))
    }

    fn set_image(&mut self, image: i64) {
        self.edit(|object| object.set(&["spec", "template", "spec", "image"], image));
    }

    fn scale(&mut self, replicas: i64) {
        self.edit(|object| object.set(&["spec", "replicas"], replicas));
    }

    /// The template of a set that is still there, as a rollback writes it.
    fn roll_back(&mut self) {
        let head = self.head();
        let templates: Vec<Value> =
            head.sets.values().filter_map(|set| set.object.at(&["spec", "template"]).cloned()).collect();
        if templates.is_empty() {
            return;
        }
        let mut template = templates[self.random.random_range(0..templates.len())].clone();
        template["metadata"]["labels"].as_object_mut().expect("labels").remove(template::HASH_LABEL);
        self.edit(|object| object.set(&["spec", "template"], template));
    }

    fn edit_anything(&mut self) {
        let number = self.random.random_range(0..12_i64);
        match self.random.random_range(0..7) {
            0 | 1 => self.scale(number),
            2 | 3 => self.set_image(number % 4),
            4 => self.roll_back(),
            5 => self.edit(|object| object.set(&["spec", "paused"], number % 2 == 0)),
            _ => {
                let strategy = match number % 4 {
                    0 => json!({"type": "Recreate"}),
                    1 => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
                    2 => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "30%", "maxUnavailable": 0}}),
                    _ => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": "20%"}}),
                };
                self.edit(|object| object.set(&["spec", "strategy"], strategy));
            }
        }
    }
}

fn size(number: i64) -> usize {
    usize::try_from(number).expect("not negative")
}

/// A rollout that nobody disturbs, with new templates and rollbacks on the way: at no moment more pods than the surge
/// allows, at no moment fewer available than must be, whoever lags.
#[test]
fn an_undisturbed_rollout_keeps_its_bounds_at_every_moment() {
    each_seed("an_undisturbed_rollout", |seed| {
        let mut shape = Model::new(seed, 0, 0, 0);
        let (replicas, surge) = (shape.random.random_range(1..12), shape.random.random_range(0..4));
        let unavailable = shape.random.random_range(i64::from(surge == 0)..5);
        let mut model = Model::new(seed, replicas, surge, unavailable);
        model.settle();
        model.bounds = Bounds {
            most: Some(size(replicas + surge)),
            fewest_available: Some(size((replicas - unavailable).max(0))),
            one_template: false,
        };
        for _ in 0..3 {
            match model.random.random_range(0..4) {
                0 => model.roll_back(),
                _ => {
                    let image = model.random.random_range(0..4);
                    model.set_image(image);
                }
            }
            model.steps();
        }
        model.settle();
    });
}

/// Pods of two templates never live side by side.
#[test]
fn recreate_never_mixes_two_templates() {
    each_seed("recreate_never_mixes", |seed| {
        let mut model = Model::new(seed, 4, 0, 0);
        model.edit(|object| object.set(&["spec", "strategy"], json!({"type": "Recreate"})));
        model.settle();
        model.bounds = Bounds { most: Some(9), fewest_available: None, one_template: true };
        for _ in 0..3 {
            let (image, replicas) = (model.random.random_range(0..3), model.random.random_range(1..10));
            model.set_image(image);
            if model.random.random_bool(0.3) {
                model.scale(replicas);
            }
            model.steps();
        }
        model.settle();
    });
}

/// Only scaled, but killed at any write and with pods that fail: never more pods than the largest number asked for since
/// all was exact, and what one process may leave behind.
#[test]
fn deaths_make_no_more_than_one_batch_too_many() {
    each_seed("deaths_make_no_more", |seed| {
        let mut model = Model::new(seed, 3, 1, 0);
        model.settle();
        let mut asked = 3;
        for _ in 0..6 {
            let replicas = model.random.random_range(0..60);
            asked = if model.exact().is_ok() && model.late.is_empty() { replicas } else { asked.max(replicas) };
            model.bounds.most = Some(size(asked).max(active(&model.head())) + IN_FLIGHT_MAX);
            model.chance = Chance { death: 0.1, mishap: 0.02 };
            model.scale(replicas);
            (0..4).for_each(|_| model.steps());
        }
        model.settle();
    });
}

/// Everything at once; the end is exactly what was asked for last.
#[test]
fn whatever_happens_it_ends_as_asked() {
    each_seed("whatever_happens", |seed| {
        let mut model = Model::new(seed, 3, 1, 0);
        let mut deaths = 0;
        for _ in 0..10 {
            model.chance = Chance { death: 0.02, mishap: 0.02 };
            model.edit_anything();
            model.steps();
            deaths += model.deaths;
        }
        model.edit(|object| object.set(&["spec", "paused"], false));
        model.settle();
        println!("{deaths} deaths, {} revisions", model.revision());
    });
}
