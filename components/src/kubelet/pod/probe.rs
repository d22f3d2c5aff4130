//! Probes: when they ask, and what a row of answers means (Kubernetes 1.36). Pure.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Probe},
    apimachinery::pkg::util::intstr::IntOrString,
};

/// What is asked of a container, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Whether it has come up; until then the others do not ask.
    Startup,
    /// Whether it takes requests.
    Readiness,
    /// Whether it still works; if not, it is ended.
    Liveness,
    /// Not a probe: the hook that runs once after a start, before the container counts as come up.
    PostStart,
}

/// What is done to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A command in its place.
    Exec(Vec<String>),
    /// A request.
    Http(Get),
    /// A connection.
    Tcp {
        /// Empty: the pod's address.
        host: String,
        /// As the pod names it.
        port: u16,
    },
    /// Time passes.
    Sleep(Duration),
}

/// A request for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get {
    /// Empty: the pod's address.
    pub host: String,
    /// As the pod names it.
    pub port: u16,
    /// Path and query.
    pub path: String,
    /// Headers beside the usual ones.
    pub headers: Vec<(String, String)>,
}

/// A probe with its defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What it does.
    pub action: Action,
    /// From the container's start to the first question.
    pub delay: Duration,
    /// From one question to the next.
    pub period: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// So many good answers in a row make it good.
    pub successes: u32,
    /// So many bad answers in a row make it bad.
    pub failures: u32,
}

/// The answers so far.
#[derive(Debug, Default)]
pub struct Answers {
    last: Option<bool>,
    row: u32,
}

impl Kind {
    /// As messages name it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Startup => "startup",
            Kind::Readiness => "readiness",
            Kind::Liveness => "liveness",
            Kind::PostStart => "postStart",
        }
    }

    /// The container's probe of this kind.
    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Kind::Startup => container.startup_probe.as_ref(),
            Kind::Readiness => container.readiness_probe.as_ref(),
            Kind::Liveness => container.liveness_probe.as_ref(),
            Kind::PostStart => None,
        }
    }
}

impl Answers {
    /// Takes an answer down; tells what the probe says once the row is long enough.
    pub fn note(&mut self, good: bool, settings: &Settings) -> Option<bool> {
        self.row = if self.last == Some(good) { self.row.saturating_add(1) } else { 1 };
        self.last = Some(good);
        let enough = if good { settings.successes } else { settings.failures };
        (self.row >= enough).then_some(good)
    }
}

impl Settings {
    /// Reads a probe. The error names what is not supported or not there.
    pub fn of(probe: &Probe, container: &Container) -> Result<Self, String> {
        let seconds = |value: Option<i32>, default: u64, least: u64| {
            let value =
                value.filter(|value| *value != 0).map_or(default, |value| u64::try_from(value).unwrap_or(default));
            Duration::from_secs(value.max(least))
        };
        let count = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        let action = if let Some(exec) = &probe.exec {
            Action::Exec(exec.command.clone().unwrap_or_default())
        } else if let Some(get) = &probe.http_get {
            http(get, container)?
        } else if let Some(tcp) = &probe.tcp_socket {
            Action::Tcp { host: tcp.host.clone().unwrap_or_default(), port: port(&tcp.port, container)? }
        } else if probe.grpc.is_some() {
            return Err("grpc probes are not supported".to_owned());
        } else {
            return Err("the probe has no handler".to_owned());
        };
        Ok(Settings {
            action,
            delay: seconds(probe.initial_delay_seconds, 0, 0),
            period: seconds(probe.period_seconds, 10, 1),
            timeout: seconds(probe.timeout_seconds, 1, 1),
            successes: count(probe.success_threshold, 1),
            failures: count(probe.failure_threshold, 3),
        })
    }
}

/// Reads the handler of a hook.
pub fn hook(handler: &LifecycleHandler, container: &Container) -> Result<Action, String> {
    if let Some(exec) = &handler.exec {
        Ok(Action::Exec(exec.command.clone().unwrap_or_default()))
    } else if let Some(get) = &handler.http_get {
        http(get, container)
    } else if let Some(sleep) = &handler.sleep {
        Ok(Action::Sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))))
    } else {
        Err("the hook has no handler that is supported".to_owned())
    }
}

fn http(get: &HTTPGetAction, container: &Container) -> Result<Action, String> {
    if get.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("HTTPS")) {
        return Err("httpGet.scheme HTTPS is not supported".to_owned());
    }
    let path = get.path.clone().unwrap_or_default();
    let path = if path.starts_with('/') { path } else { format!("/{path}") };
    let headers = get.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone()));
    let host = get.host.clone().unwrap_or_default();
    Ok(Action::Http(Get { host, port: port(&get.port, container)?, path, headers: headers.collect() }))
}

/// The number of a port, which may be named by one of the container's ports.
fn port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(text) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(text));
            named.map(|port| port.container_port).or_else(|| text.parse().ok())
        }
    };
    let number = number.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0);
    number.ok_or_else(|| match port {
        IntOrString::Int(number) => format!("invalid port number: {number}"),
        IntOrString::String(text) => format!("couldn't find port: {text}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn settings(probe: Value) -> Result<Settings, String> {
        let container: Container = serde_json::from_value(json!({
            "name": "c", "ports": [{"name": "web", "containerPort": 8080}], "readinessProbe": probe,
        }))
        .expect("a container");
        Settings::of(Kind::Readiness.of(&container).expect("a probe"), &container)
    }

    #[test]
    fn a_probe_has_upstreams_defaults() {
        let made = settings(json!({"httpGet": {"port": "web"}})).expect("readable");
        let get = Get { host: String::new(), port: 8080, path: "/".into(), headers: Vec::new() };
        assert_eq!(made.action, Action::Http(get));
        let seconds = [made.delay, made.period, made.timeout].map(|time| time.as_secs());
        assert_eq!((seconds, made.successes, made.failures), ([0, 10, 1], 1, 3));
    }

    #[test]
    fn what_a_probe_cannot_do_is_named() {
        for (probe, expected) in [
            (json!({"httpGet": {"port": "none"}}), "couldn't find port: none"),
            (json!({"httpGet": {"port": 443, "scheme": "HTTPS"}}), "httpGet.scheme HTTPS is not supported"),
            (json!({"grpc": {"port": 1}}), "grpc probes are not supported"),
            (json!({}), "the probe has no handler"),
        ] {
            assert_eq!(settings(probe), Err(expected.to_owned()));
        }
    }

    #[test]
    fn only_a_row_of_answers_counts() {
        let settings = settings(json!({
            "tcpSocket": {"port": 1}, "successThreshold": 2, "failureThreshold": 3,
        }))
        .expect("readable");
        let mut answers = Answers::default();
        let said: Vec<_> = [true, true, true, false, false, true, false, false, false]
            .into_iter()
            .map(|good| answers.note(good, &settings))
            .collect();
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(said, [None, yes, yes, None, None, None, None, None, no]);
    }
}
