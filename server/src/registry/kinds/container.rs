//! The rules of containers: names, ports, environment, resources, mounts, probes, security.

use std::collections::HashSet;

use listwatch_proto::resource::Quantity;
use serde_json::{Value, json};

use super::faults::{Faults, Path, Shown};
use super::fields::{has, items, text};
use super::names;
use super::pod_spec::{Context, entries};
use super::probe;
use super::volume;

/// What a container may ask for without a domain in its name.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Every fault of the containers of a spec.
pub(super) fn validate_all(context: &Context<'_>, path: &Path, faults: &mut Faults) {
    let spec = context.spec;
    let mut seen: HashSet<&str> = HashSet::new();
    let regular = path.child("containers");
    if items(spec, "containers").is_empty() {
        faults.required(&regular, "");
    }
    for (i, container) in items(spec, "containers").iter().enumerate() {
        let path = regular.index(i);
        name(container, &path, &mut seen, faults);
        validate(context, container, &path, faults);
        if has(container, "restartPolicy") {
            restart_policy(container, &path, faults);
        }
        lifecycle(spec, container, &path, faults);
        probe::validate_all(spec, container, &path, faults);
    }
    for (i, container) in items(spec, "initContainers").iter().enumerate() {
        let path = path.child("initContainers").index(i);
        name(container, &path, &mut seen, faults);
        validate(context, container, &path, faults);
        let restartable = text(container, "restartPolicy") == "Always";
        if has(container, "restartPolicy") {
            restart_policy(container, &path, faults);
        }
        if restartable {
            lifecycle(spec, container, &path, faults);
            probe::validate_all(spec, container, &path, faults);
        } else {
            for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if has(container, key) {
                    faults
                        .forbidden(&path.child(key), "may not be set for init containers without restartPolicy=Always");
                }
            }
        }
    }
    host_ports(spec, path, faults);
}

fn restart_policy(container: &Value, path: &Path, faults: &mut Faults) {
    let policy = text(container, "restartPolicy");
    if !matches!(policy, "Always" | "Never" | "OnFailure") {
        faults.not_supported(&path.child("restartPolicy"), policy, &["Always", "Never", "OnFailure"]);
    }
}

fn name<'a>(container: &'a Value, path: &Path, seen: &mut HashSet<&'a str>, faults: &mut Faults) {
    let name = text(container, "name");
    let path = path.child("name");
    if name.is_empty() {
        faults.required(&path, "");
    } else {
        faults.invalid_all(&path, name, names::label(name, false));
        if !seen.insert(name) {
            faults.duplicate(&path, name);
        }
    }
}

fn validate(context: &Context<'_>, container: &Value, path: &Path, faults: &mut Faults) {
    let image = text(container, "image");
    if image.is_empty() {
        faults.required(&path.child("image"), "");
    } else if image.trim() != image {
        faults.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
    }
    let policy = text(container, "terminationMessagePolicy");
    match policy {
        "" => faults.required(&path.child("terminationMessagePolicy"), ""),
        "File" | "FallbackToLogsOnError" => {}
        _ => {
            let allowed = ["File", "FallbackToLogsOnError"];
            faults.not_supported(&path.child("terminationMessagePolicy"), policy, &allowed);
        }
    }
    ports(context.spec, container, &path.child("ports"), faults);
    super::environment::validate(container, path, faults);
    volume::mounts(context, container, path, faults);
    let pull = text(container, "imagePullPolicy");
    match pull {
        "" => faults.required(&path.child("imagePullPolicy"), ""),
        "Always" | "IfNotPresent" | "Never" => {}
        _ => faults.not_supported(&path.child("imagePullPolicy"), pull, &["Always", "IfNotPresent", "Never"]),
    }
    resources(context.spec, container, &path.child("resources"), faults);
    resize_policy(container, &path.child("resizePolicy"), faults);
    security(container, path, faults);
}

fn ports(spec: &Value, container: &Value, path: &Path, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (i, port) in items(container, "ports").iter().enumerate() {
        let path = path.index(i);
        let name = text(port, "name");
        if !name.is_empty() {
            let wrong = names::port(name);
            if wrong.is_empty() {
                if !seen.insert(name) {
                    faults.duplicate(&path.child("name"), name);
                }
            } else {
                faults.invalid_all(&path.child("name"), name, wrong);
            }
        }
        let number = port["containerPort"].as_i64().unwrap_or(0);
        if number == 0 {
            faults.required(&path.child("containerPort"), "");
        } else if let Some(why) = names::port_number(number) {
            faults.invalid(&path.child("containerPort"), number, why);
        }
        let host = port["hostPort"].as_i64().unwrap_or(0);
        if host != 0
            && let Some(why) = names::port_number(host)
        {
            faults.invalid(&path.child("hostPort"), host, why);
        }
        if spec["hostNetwork"] == true && host != number {
            let why = "must match `containerPort` when `hostNetwork` is true";
            faults.invalid(&path.child("hostPort"), host, why);
        }
        match text(port, "protocol") {
            "" => faults.required(&path.child("protocol"), ""),
            "TCP" | "UDP" | "SCTP" => {}
            other => faults.not_supported(&path.child("protocol"), other, &["SCTP", "TCP", "UDP"]),
        }
    }
}

/// A host's port can be had once.
fn host_ports(spec: &Value, path: &Path, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (i, container) in items(spec, "containers").iter().enumerate() {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            if host == 0 {
                continue;
            }
            let taken = format!("{}/{}/{host}", text(port, "protocol"), text(port, "hostIP"));
            if !seen.insert(taken.clone()) {
                let path = path.child("containers").index(i).child("ports").index(j).child("hostPort");
                faults.duplicate(&path, &taken);
            }
        }
    }
}

fn resources(spec: &Value, container: &Value, path: &Path, faults: &mut Faults) {
    let resources = &container["resources"];
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    let mut needs_limit = false;
    for (key, value) in entries(&resources["limits"]) {
        resource(key, value, &limits.key(key), faults);
        needs_limit |= key.starts_with("hugepages-");
    }
    for (key, value) in entries(&resources["requests"]) {
        resource(key, value, &requests.key(key), faults);
        let (Some(request), limit) = (amount(value), amount(&resources["limits"][key])) else { continue };
        match limit {
            Some(limit) if may_exceed(key) && request > limit => {
                let why = format!("must be less than or equal to {key} limit of {limit}");
                faults.invalid(&requests, request, &why);
            }
            Some(limit) if !may_exceed(key) && request != limit => {
                let why = format!("must be equal to {key} limit of {limit}");
                faults.invalid(&requests, request, &why);
            }
            None if !may_exceed(key) => faults.required(&limits, "Limit must be set for non overcommitable resources"),
            _ => {}
        }
        needs_limit |= key.starts_with("hugepages-");
    }
    let plain = |key: &str| has(&resources["limits"], key) || has(&resources["requests"], key);
    if needs_limit && !plain("cpu") && !plain("memory") {
        faults.forbidden(path, "HugePages require cpu or memory");
    }
    claims(spec, resources, &path.child("claims"), faults);
}

/// Whether more may be promised than there is.
fn may_exceed(name: &str) -> bool {
    STANDARD.contains(&name) || !(name.contains('/') || name.starts_with("hugepages-"))
}

fn claims(spec: &Value, resources: &Value, path: &Path, faults: &mut Faults) {
    let known: Vec<&str> = items(spec, "resourceClaims").iter().map(|claim| text(claim, "name")).collect();
    let mut seen = HashSet::new();
    for (i, claim) in items(resources, "claims").iter().enumerate() {
        let name = text(claim, "name");
        let path = path.index(i);
        if name.is_empty() {
            faults.required(&path.child("name"), "");
            continue;
        }
        if !seen.insert((name, text(claim, "request"))) {
            faults.duplicate(&path, name);
        }
        if !known.contains(&name) {
            let why = if known.is_empty() {
                "must be one of the names in pod.spec.resourceClaims which is empty".to_owned()
            } else {
                format!("must be one of the names in pod.spec.resourceClaims: {}", known.join(", "))
            };
            faults.not_found_because(&path, name, &why);
        }
    }
}

/// One resource: its name, and an amount that is not below zero and in units that there are.
fn resource(name: &str, value: &Value, path: &Path, faults: &mut Faults) {
    let qualified = names::qualified(name);
    let huge = name.strip_prefix("hugepages-");
    if !qualified.is_empty() {
        faults.invalid_all(path, name, qualified);
        if name.contains('/') {
            faults.invalid(path, name, "doesn't follow extended resource name standard");
        }
    } else if !name.contains('/') && !STANDARD.contains(&name) && huge.is_none() {
        faults.invalid(path, name, "must be a standard resource type or fully qualified");
        faults.invalid(path, name, "must be a standard resource for containers");
    }
    let Some(Ok(amount)) = value.as_str().map(str::parse::<Quantity>) else { return };
    if amount.is_negative() {
        faults.invalid(path, amount, "must be greater than or equal to 0");
    }
    let whole = amount.nanos() % 1_000_000_000 == 0;
    if (name.contains('/') || huge.is_some()) && !whole {
        faults.invalid(path, amount, "must be an integer");
    }
    if let Some(Ok(page)) = huge.map(str::parse::<Quantity>)
        && (page.value() <= 0 || amount.value() % page.value() != 0)
    {
        faults.invalid(path, amount, &format!("{amount} is not positive integer multiple of {name}"));
    }
}

fn resize_policy(container: &Value, path: &Path, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (i, policy) in items(container, "resizePolicy").iter().enumerate() {
        let (name, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !seen.insert(name) {
            faults.duplicate(&path.index(i), name);
        }
        for (word, allowed) in [(name, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            match word {
                "" => faults.required(path, ""),
                _ if allowed.contains(&word) => {}
                _ => faults.not_supported(path, word, &allowed),
            }
        }
    }
}

fn lifecycle(spec: &Value, container: &Value, path: &Path, faults: &mut Faults) {
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    for key in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][key];
        if handler.is_object() {
            probe::handler(handler, grace, &path.child("lifecycle").child(key), faults);
        }
    }
}

/// A user's or group's number.
pub(super) fn id(value: &Value, path: &Path, faults: &mut Faults) {
    if let Some(id) = value.as_i64()
        && !(0..=i64::from(i32::MAX)).contains(&id)
    {
        faults.invalid(path, id, "must be between 0 and 2147483647, inclusive");
    }
}

/// A seccomp or AppArmor profile.
pub(super) fn profile(profile: &Value, key: &str, path: &Path, faults: &mut Faults) {
    if profile.is_null() {
        return;
    }
    let path = path.child(key);
    let (kind, local) = (text(profile, "type"), has(profile, "localhostProfile"));
    match kind {
        "Localhost" if !local => {
            faults.required(&path.child("localhostProfile"), "must be set when seccomp type is Localhost");
        }
        "Localhost" => {}
        "RuntimeDefault" | "Unconfined" if local => {
            let why = "can only be set when type is \"Localhost\"";
            faults.invalid(&path.child("localhostProfile"), &profile["localhostProfile"], why);
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => faults.required(&path.child("type"), "type is required when seccompProfile is set"),
        other => faults.not_supported(&path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

fn security(container: &Value, path: &Path, faults: &mut Faults) {
    let context = &container["securityContext"];
    if context.is_null() {
        return;
    }
    let path = path.child("securityContext");
    for key in ["runAsUser", "runAsGroup"] {
        id(&context[key], &path.child(key), faults);
    }
    let mount = text(context, "procMount");
    if !mount.is_empty() && !matches!(mount, "Default" | "Unmasked") {
        faults.not_supported(&path.child("procMount"), mount, &["Default", "Unmasked"]);
    }
    profile(&context["seccompProfile"], "seccompProfile", &path, faults);
    profile(&context["appArmorProfile"], "appArmorProfile", &path, faults);
    if context["allowPrivilegeEscalation"] == false {
        if context["privileged"] == true {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            faults.invalid(&path, shown_context(context), why);
        }
        let added = items(&context["capabilities"], "add");
        if added.iter().any(|c| matches!(c.as_str(), Some("CAP_SYS_ADMIN"))) {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            faults.invalid(&path, shown_context(context), why);
        }
    }
}

/// A security context as Go prints its struct.
fn shown_context(context: &Value) -> Shown {
    let capabilities = match &context["capabilities"] {
        Value::Object(c) => {
            let get = |key: &str| c.get(key).cloned().unwrap_or(Value::Null);
            format!("{{\"Add\":{},\"Drop\":{}}}", get("add"), get("drop"))
        }
        _ => "null".to_owned(),
    };
    let mut fields = vec![format!("\"Capabilities\":{capabilities}")];
    for (go, key) in [
        ("Privileged", "privileged"),
        ("SELinuxOptions", "seLinuxOptions"),
        ("WindowsOptions", "windowsOptions"),
        ("RunAsUser", "runAsUser"),
        ("RunAsGroup", "runAsGroup"),
        ("RunAsNonRoot", "runAsNonRoot"),
        ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
        ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
        ("ProcMount", "procMount"),
        ("SeccompProfile", "seccompProfile"),
        ("AppArmorProfile", "appArmorProfile"),
    ] {
        fields.push(format!("{}:{}", json!(go), context.get(key).unwrap_or(&Value::Null)));
    }
    Shown(format!("{{{}}}", fields.join(",")))
}
