//! The rules of probes and lifecycle handlers.

use serde_json::Value;

use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::names;

/// Every fault of a container's probes.
pub(in crate::registry::kinds) fn validate_all(spec: &Value, container: &Value, path: &Path, faults: &mut Faults) {
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[key];
        if probe.is_null() {
            continue;
        }
        let path = path.child(key);
        handler(probe, grace, &path, faults);
        for key in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
            if let Some(number) = probe[key].as_i64().filter(|n| *n < 0) {
                faults.invalid(&path.child(key), number, "must be greater than or equal to 0");
            }
        }
        if let Some(seconds) = probe["terminationGracePeriodSeconds"].as_i64().filter(|s| *s <= 0) {
            faults.invalid(&path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0");
        }
        if key == "readinessProbe" {
            if has(probe, "terminationGracePeriodSeconds") {
                let shown = &probe["terminationGracePeriodSeconds"];
                let why = "must not be set for readinessProbes";
                faults.invalid(&path.child("terminationGracePeriodSeconds"), shown, why);
            }
        } else if let Some(threshold) = probe["successThreshold"].as_i64().filter(|t| *t != 1) {
            faults.invalid(&path.child("successThreshold"), threshold, "must be 1");
        }
    }
}

/// What is done to a container: exactly one thing.
pub(in crate::registry::kinds) fn handler(handler: &Value, grace: Option<i64>, path: &Path, faults: &mut Faults) {
    let mut handlers = 0;
    for (key, rule) in [
        ("exec", exec as fn(&Value, &Path, &mut Faults)),
        ("httpGet", http_get),
        ("tcpSocket", tcp_socket),
        ("grpc", grpc),
    ] {
        if !has(handler, key) {
            continue;
        }
        if handlers > 0 {
            faults.forbidden(&path.child(key), "may not specify more than 1 handler type");
        } else {
            handlers += 1;
            rule(&handler[key], &path.child(key), faults);
        }
    }
    if has(handler, "sleep") && handlers > 0 {
        faults.forbidden(&path.child("sleep"), "may not specify more than 1 handler type");
    } else if has(handler, "sleep") {
        handlers += 1;
        let (seconds, grace) = (handler["sleep"]["seconds"].as_i64().unwrap_or(0), grace.unwrap_or(0));
        if seconds < 0 || seconds > grace {
            let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
            faults.invalid(&path.child("sleep"), seconds, &why);
        }
    }
    if handlers == 0 {
        faults.required(path, "must specify a handler type");
    }
}

fn exec(action: &Value, path: &Path, faults: &mut Faults) {
    if items(action, "command").is_empty() {
        faults.required(&path.child("command"), "");
    }
}

fn http_get(action: &Value, path: &Path, faults: &mut Faults) {
    if text(action, "path").is_empty() {
        faults.required(&path.child("path"), "");
    }
    port(&action["port"], &path.child("port"), faults);
    let scheme = text(action, "scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        faults.not_supported(&path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in items(action, "httpHeaders") {
        let name = text(header, "name");
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex \
                       used for validation is '[-A-Za-z0-9]+')";
            faults.invalid(&path.child("httpHeaders"), name, why);
        }
    }
}

fn tcp_socket(action: &Value, path: &Path, faults: &mut Faults) {
    port(&action["port"], &path.child("port"), faults);
}

fn grpc(action: &Value, path: &Path, faults: &mut Faults) {
    port(&action["port"], &path.child("port"), faults);
}

/// A port's number, or the name of one.
fn port(port: &Value, path: &Path, faults: &mut Faults) {
    match port {
        Value::String(name) => faults.invalid_all(path, name, names::port(name)),
        number => {
            let number = number.as_i64().unwrap_or(0);
            if let Some(why) = names::port_number(number) {
                faults.invalid(path, number, why);
            }
        }
    }
}
