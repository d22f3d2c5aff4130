//! The rules of containers: names, ports, environment, resources, mounts, probes, security.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::spec::Context;
use super::volume_source::descending;
use super::{ephemeral, probe, volume};
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::resources::Of;
use crate::registry::kinds::vocabulary::{names, resources};

/// Every fault of the containers of a spec.
pub(in crate::registry::kinds) fn validate_all(context: &Context<'_>, path: &Path, faults: &mut Faults) {
    let spec = context.spec;
    let regular = path.child("containers");
    let mut seen: HashSet<&str> = HashSet::new();
    if items(spec, "containers").is_empty() {
        faults.required(&regular, "");
    }
    for (i, container) in items(spec, "containers").iter().enumerate() {
        let path = regular.index(i);
        validate(context, container, &path, faults);
        if !seen.insert(text(container, "name")) {
            faults.duplicate(&path.child("name"), text(container, "name"));
        }
        lifecycle(spec, container, &path, faults);
        probe::validate_all(spec, container, &path, faults);
        restart_policy(container, &path, faults);
    }
    host_ports(items(spec, "containers"), &regular, faults);
    let initial = path.child("initContainers");
    for (i, container) in items(spec, "initContainers").iter().enumerate() {
        let path = initial.index(i);
        let name = text(container, "name");
        validate(context, container, &path, faults);
        restart_policy(container, &path, faults);
        if !name.is_empty() && !seen.insert(name) {
            faults.duplicate(&path.child("name"), name);
        }
        // They run one by one, so each is looked at alone; upstream names all as the first.
        host_ports(std::slice::from_ref(container), &initial, faults);
        if text(container, "restartPolicy") == "Always" {
            lifecycle(spec, container, &path, faults);
            probe::validate_all(spec, container, &path, faults);
        } else {
            for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if has(container, key) {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    faults.forbidden(&path.child(key), why);
                }
            }
        }
    }
    ephemeral::validate_all(context, &mut seen, &path.child("ephemeralContainers"), faults);
    if spec["hostNetwork"] == true {
        host_network(context, &regular, faults);
    }
}

/// With the host's network a container's port is the host's; in a template it may be left out.
fn host_network(context: &Context<'_>, path: &Path, faults: &mut Faults) {
    for (i, container) in items(context.spec, "containers").iter().enumerate() {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let (host, number) = (port["hostPort"].as_i64().unwrap_or(0), port["containerPort"].as_i64().unwrap_or(0));
            if (context.is_pod || host != 0) && host != number {
                let at = path.index(i).child("ports").index(j).child("hostPort");
                faults.invalid(&at, host, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

/// When a container is started again, and the rules that say more about it.
fn restart_policy(container: &Value, path: &Path, faults: &mut Faults) {
    const RULES_MAX: usize = 20;
    const VALUES_MAX: usize = 255;
    let (rules, at) = (items(container, "restartPolicyRules"), path.child("restartPolicy"));
    match container["restartPolicy"].as_str() {
        None if rules.is_empty() => return,
        None => faults.required(&at, "must specify restartPolicy when restart rules are used"),
        Some("Always" | "Never" | "OnFailure") => {}
        Some(other) => faults.not_supported(&at, other, &["Always", "Never", "OnFailure"]),
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > RULES_MAX {
        faults.too_many(&path, rules.len(), RULES_MAX);
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = path.index(i);
        let action = text(rule, "action");
        if !matches!(action, "Restart" | "RestartAllContainers") {
            faults.not_supported(&path.child("action"), action, &["Restart", "RestartAllContainers"]);
        }
        let (codes, path) = (&rule["exitCodes"], path.child("exitCodes"));
        if codes.is_null() {
            faults.required(&path, "must be specified");
            continue;
        }
        let operator = text(codes, "operator");
        if !matches!(operator, "In" | "NotIn") {
            faults.not_supported(&path.child("operator"), operator, &["In", "NotIn"]);
        }
        let values = items(codes, "values").len();
        if values > VALUES_MAX {
            faults.too_many(&path.child("values"), values, VALUES_MAX);
        }
    }
}

/// What is asked of every container.
pub(super) fn validate(context: &Context<'_>, container: &Value, path: &Path, faults: &mut Faults) {
    let name = text(container, "name");
    if name.is_empty() {
        faults.required(&path.child("name"), "");
    } else {
        faults.invalid_all(&path.child("name"), name, names::label(name, false));
    }
    if text(container, "image").is_empty() {
        faults.required(&path.child("image"), "");
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
    ports(container, &path.child("ports"), faults);
    super::environment::validate(container, path, faults);
    volume::mounts(context, container, path, faults);
    let pull = text(container, "imagePullPolicy");
    match pull {
        "" => faults.required(&path.child("imagePullPolicy"), ""),
        "Always" | "IfNotPresent" | "Never" => {}
        _ => faults.not_supported(&path.child("imagePullPolicy"), pull, &["Always", "IfNotPresent", "Never"]),
    }
    resources::validate(context.spec, &container["resources"], Of::Container, &path.child("resources"), faults);
    resize_policy(context.spec, container, &path.child("resizePolicy"), faults);
    security(context.spec, container, path, faults);
}

fn ports(container: &Value, path: &Path, faults: &mut Faults) {
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
        match text(port, "protocol") {
            "" => faults.required(&path.child("protocol"), ""),
            "TCP" | "UDP" | "SCTP" => {}
            other => faults.not_supported(&path.child("protocol"), other, &["SCTP", "TCP", "UDP"]),
        }
    }
}

/// A host's port can be had once.
fn host_ports(containers: &[Value], path: &Path, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            if host == 0 {
                continue;
            }
            let taken = format!("{}/{}/{host}", text(port, "protocol"), text(port, "hostIP"));
            if !seen.insert(taken.clone()) {
                faults.duplicate(&path.index(i).child("ports").index(j).child("hostPort"), &taken);
            }
        }
    }
}

fn resize_policy(spec: &Value, container: &Value, path: &Path, faults: &mut Faults) {
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
        if text(spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            faults.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
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
pub(in crate::registry::kinds) fn id(value: &Value, path: &Path, faults: &mut Faults) {
    if let Some(id) = value.as_i64()
        && !(0..=i64::from(i32::MAX)).contains(&id)
    {
        faults.invalid(path, id, "must be between 0 and 2147483647, inclusive");
    }
}

/// A seccomp or AppArmor profile, by the name of its field.
pub(in crate::registry::kinds) fn profile(profile: &Value, key: &str, path: &Path, faults: &mut Faults) {
    const NAME_MAX: usize = 4095;
    if profile.is_null() {
        return;
    }
    let is_seccomp = key == "seccompProfile";
    let system = if is_seccomp { "seccomp" } else { "AppArmor" };
    let path = path.child(key);
    let (kind, at) = (text(profile, "type"), path.child("localhostProfile"));
    match kind {
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        "" => faults.required(&path.child("type"), &format!("type is required when {key} is set")),
        other => faults.not_supported(&path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
    let only = format!("can only be set when {system} type is Localhost");
    let must = format!("must be set when {system} type is Localhost");
    match profile["localhostProfile"].as_str() {
        None if kind == "Localhost" => faults.required(&at, &must),
        None => {}
        Some(name) if kind == "Localhost" && is_seccomp => descending(name, &at, faults),
        Some(name) if kind == "Localhost" => {
            if name.trim() != name {
                faults.invalid(&at, name, "must not be padded with whitespace");
            } else if name.is_empty() {
                faults.required(&at, &must);
            }
            if name.len() > NAME_MAX {
                faults.too_long(&at, NAME_MAX);
            }
        }
        Some(name) if is_seccomp => {
            let shown = format!("{{\"Type\":{},\"LocalhostProfile\":{}}}", json!(kind), json!(name));
            faults.invalid(&at, Shown(shown), &only);
        }
        Some(name) if matches!(kind, "RuntimeDefault" | "Unconfined") => faults.invalid(&at, name, &only),
        Some(_) => {}
    }
}

/// What a Windows container is run as.
pub(in crate::registry::kinds) fn windows_options(options: &Value, path: &Path, faults: &mut Faults) {
    const SPEC_KIB_MAX: usize = 64;
    if let Some(name) = options["gmsaCredentialSpecName"].as_str() {
        faults.invalid_all(&path.child("gmsaCredentialSpecName"), name, names::subdomain(name, false));
    }
    if let Some(spec) = options["gmsaCredentialSpec"].as_str() {
        let at = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            faults.invalid(&at, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > SPEC_KIB_MAX << 10 {
            faults.invalid(&at, spec, &format!("gmsaCredentialSpec size must be under {SPEC_KIB_MAX} KiB"));
        }
    }
    if let Some(name) = options["runAsUserName"].as_str() {
        for why in windows_user(name) {
            faults.invalid(&path.child("runAsUserName"), name, &format!("runAsUserName{why}"));
        }
    }
}

/// What is wrong with a Windows user: `DOMAIN\\user` or `user`.
fn windows_user(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec![" cannot be an empty string"];
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return vec![" cannot contain control characters"];
    }
    let (domain, user) = match name.split('\\').collect::<Vec<_>>()[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return vec![" cannot contain more than one backslash"],
    };
    let mut wrong = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= 256) {
        wrong.push("'s Domain length must be under 256 characters");
    }
    let net_bios = |domain: &str| {
        let count = domain.chars().count();
        !domain.starts_with('.') && (1..=15).contains(&count) && !domain.chars().any(|c| "\\/:*?\"<>|".contains(c))
    };
    let dns = |domain: &str| {
        let part = |p: &str| names::label(&p.to_lowercase(), false).is_empty();
        !domain.is_empty() && domain.split('.').all(part)
    };
    if domain.is_some_and(|domain| !net_bios(domain) && !dns(domain)) {
        wrong.push("'s Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        wrong.push("'s User cannot be empty");
    } else if user.len() > 104 {
        wrong.push("'s User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        wrong.push("'s User cannot contain only periods or spaces");
    }
    if user.chars().any(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        wrong.push("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    wrong
}

fn security(spec: &Value, container: &Value, path: &Path, faults: &mut Faults) {
    let context = &container["securityContext"];
    if context.is_null() {
        return;
    }
    let path = path.child("securityContext");
    for key in ["runAsUser", "runAsGroup"] {
        id(&context[key], &path.child(key), faults);
    }
    if let Some(mount) = context["procMount"].as_str() {
        let at = path.child("procMount");
        if !matches!(mount, "Default" | "Unmasked") {
            faults.not_supported(&at, mount, &["Default", "Unmasked"]);
        }
        if mount == "Unmasked" && spec["hostUsers"] != false {
            faults.invalid(&at, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    profile(&context["seccompProfile"], "seccompProfile", &path, faults);
    if context["allowPrivilegeEscalation"] == false {
        if context["privileged"] == true {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            faults.invalid(&path, shown_context(context), why);
        }
        let added = items(&context["capabilities"], "add").iter();
        for _ in added.filter(|capability| capability.as_str() == Some("CAP_SYS_ADMIN")) {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            faults.invalid(&path, shown_context(context), why);
        }
    }
    windows_options(&context["windowsOptions"], &path.child("windowsOptions"), faults);
    profile(&context["appArmorProfile"], "appArmorProfile", &path, faults);
}

/// A security context as Go prints its struct.
fn shown_context(context: &Value) -> Shown {
    /// A struct with these fields, each by its Go and its JSON name; null if it is absent.
    fn shown(value: &Value, fields: &[(&str, &str)], empty: &Value) -> String {
        if value.is_null() {
            return "null".to_owned();
        }
        let field = |(go, key): &(&str, &str)| format!("\"{go}\":{}", value.get(key).unwrap_or(empty));
        format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
    }
    let (null, text) = (Value::Null, Value::from(""));
    let profile =
        |key: &str| shown(&context[key], &[("Type", "type"), ("LocalhostProfile", "localhostProfile")], &null);
    let capabilities = shown(&context["capabilities"], &[("Add", "add"), ("Drop", "drop")], &null);
    let labels = [("User", "user"), ("Role", "role"), ("Type", "type"), ("Level", "level")];
    let windows = [
        ("GMSACredentialSpecName", "gmsaCredentialSpecName"),
        ("GMSACredentialSpec", "gmsaCredentialSpec"),
        ("RunAsUserName", "runAsUserName"),
        ("HostProcess", "hostProcess"),
    ];
    let plain = |key: &str| context.get(key).unwrap_or(&null).to_string();
    let fields = [
        ("Capabilities", capabilities),
        ("Privileged", plain("privileged")),
        ("SELinuxOptions", shown(&context["seLinuxOptions"], &labels, &text)),
        ("WindowsOptions", shown(&context["windowsOptions"], &windows, &null)),
        ("RunAsUser", plain("runAsUser")),
        ("RunAsGroup", plain("runAsGroup")),
        ("RunAsNonRoot", plain("runAsNonRoot")),
        ("ReadOnlyRootFilesystem", plain("readOnlyRootFilesystem")),
        ("AllowPrivilegeEscalation", plain("allowPrivilegeEscalation")),
        ("ProcMount", plain("procMount")),
        ("SeccompProfile", profile("seccompProfile")),
        ("AppArmorProfile", profile("appArmorProfile")),
    ];
    let fields: Vec<_> = fields.iter().map(|(go, value)| format!("\"{go}\":{value}")).collect();
    Shown(format!("{{{}}}", fields.join(",")))
}
