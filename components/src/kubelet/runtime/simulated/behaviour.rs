//! What simulated containers do. Pure.
//!
//! The rule: a container runs until it is stopped, but for those whose command says at once how they end. One that would
//! only be started again and again keeps running instead: a simulation is for what is around a pod, and a crash loop
//! would hide it.

use std::time::Duration;

use super::super::seam::{ContainerConfig, Place};

/// From a container's start to its end by itself, and from the request to stop to the end.
pub(super) const ENDS_AFTER: Duration = Duration::from_millis(300);

/// The exit code of a container that was asked to stop: it is killed, for nothing in it could hear a SIGTERM.
pub(super) const STOPPED: i32 = 137;

const GOOD: &str = "/bin/true";
const BAD: &str = "/bin/false";

/// What becomes of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It runs until it is stopped.
    Runs,
    /// It ends by itself.
    Ends {
        /// Its exit code.
        code: i32,
        /// Time from its start.
        after: Duration,
    },
}

/// The fate of a container that is started now.
pub(super) fn fate(container: &ContainerConfig) -> Fate {
    let Place { init, of_job, restarts_after_success, restarts_after_failure } = container.place;
    if init {
        return Fate::Ends { code: 0, after: Duration::ZERO };
    }
    let code = match container.command.first().map(String::as_str) {
        Some(GOOD) => 0,
        Some(BAD) => 1,
        None if of_job && container.args.is_empty() => 0,
        _ => return Fate::Runs,
    };
    match (code, restarts_after_success, restarts_after_failure) {
        (0, true, _) | (1, _, true) => Fate::Runs,
        _ => Fate::Ends { code, after: ENDS_AFTER },
    }
}

/// What a probe says of a running container: all is well, unless a readiness probe runs `/bin/false`. `command` is
/// empty if the probe runs none.
pub(super) fn answer(readiness: bool, command: &[String]) -> bool {
    !(readiness && command.first().is_some_and(|program| program == BAD))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(command: &[&str], place: Place) -> ContainerConfig {
        ContainerConfig {
            name: "a".into(),
            image: "registry.local/a:1".into(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            args: Vec::new(),
            env: Vec::new(),
            working_dir: None,
            ports: Vec::new(),
            mounts: Vec::new(),
            termination: None,
            attempt_min: 0,
            hash: "h".into(),
            place,
        }
    }

    const ENDS_WELL: Fate = Fate::Ends { code: 0, after: ENDS_AFTER };
    const ENDS_BADLY: Fate = Fate::Ends { code: 1, after: ENDS_AFTER };

    #[test]
    fn the_command_decides_unless_the_container_would_only_start_again() {
        let never = Place::default();
        let on_failure = Place { restarts_after_failure: true, ..Place::default() };
        let always = Place { restarts_after_success: true, restarts_after_failure: true, ..Place::default() };
        for (command, place, expected) in [
            (&["/bin/true"][..], never, ENDS_WELL),
            (&["/bin/true"], on_failure, ENDS_WELL),
            (&["/bin/true"], always, Fate::Runs),
            (&["/bin/false"], never, ENDS_BADLY),
            (&["/bin/false"], on_failure, Fate::Runs),
            (&["/bin/false"], always, Fate::Runs),
            (&["true"], never, Fate::Runs),
            (&["sleep", "1"], never, Fate::Runs),
            (&[], never, Fate::Runs),
        ] {
            assert_eq!(fate(&container(command, place)), expected, "{command:?} with {place:?}");
        }
    }

    #[test]
    fn a_jobs_container_without_command_ends_well() {
        let job = Place { of_job: true, restarts_after_failure: true, ..Place::default() };
        assert_eq!(fate(&container(&[], job)), ENDS_WELL);
        assert_eq!(fate(&container(&["sleep"], job)), Fate::Runs);
        let with_args = ContainerConfig { args: vec!["x".into()], ..container(&[], job) };
        assert_eq!(fate(&with_args), Fate::Runs);
    }

    #[test]
    fn init_containers_end_well_at_once() {
        let init = Place { init: true, ..Place::default() };
        assert_eq!(fate(&container(&["/bin/false"], init)), Fate::Ends { code: 0, after: Duration::ZERO });
    }

    #[test]
    fn only_a_readiness_probe_that_runs_false_says_no() {
        let bad = ["/bin/false".to_owned()];
        assert!(!answer(true, &bad));
        assert!(answer(false, &bad));
        assert!(answer(true, &["/bin/true".to_owned()]));
        assert!(answer(true, &[]), "a request or a connection");
    }
}
