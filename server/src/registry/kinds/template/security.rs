//! The rules of a pod's security context and of its operating system.

use serde_json::Value;

use super::container;
use super::spec::all_containers;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, items, text};

/// The security context of the pod, and what goes together in the host's namespaces.
pub(in crate::registry::kinds) fn validate(spec: &Value, path: &Path, faults: &mut Faults) {
    let context = &spec["securityContext"];
    let at = path.child("securityContext");
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        faults.invalid(&at.child("shareProcessNamespace"), Shown("true".into()), why);
    }
    for key in ["runAsUser", "runAsGroup", "fsGroup"] {
        container::id(&context[key], &at.child(key), faults);
    }
    for (i, group) in items(context, "supplementalGroups").iter().enumerate() {
        container::id(group, &at.child("supplementalGroups").index(i), faults);
    }
    for (key, allowed) in [
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"][..]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        // Mount options are behind a gate that is off (Kubernetes 1.36).
        ("seLinuxChangePolicy", &["Recursive"]),
    ] {
        if let Some(word) = context[key].as_str().filter(|word| !allowed.contains(word)) {
            faults.not_supported(&at.child(key), word, allowed);
        }
    }
    let mut seen = Vec::new();
    for (i, sysctl) in items(context, "sysctls").iter().enumerate() {
        let name = text(sysctl, "name");
        let path = at.child("sysctls").index(i).child("name");
        if name.is_empty() {
            faults.required(&path, "");
        } else if !is_sysctl(name) {
            let why = "must have at most 253 characters and match regex \
                       ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            faults.invalid(&path, name, why);
        } else if seen.contains(&name) {
            faults.duplicate(&path, name);
        }
        for (host, of) in [("hostNetwork", "net"), ("hostIPC", "ipc")] {
            if spec[host] == true && namespace_of(name) == of {
                faults.invalid(&path, name, &format!("may not be specified when '{host}' is true"));
            }
        }
        seen.push(name);
    }
    container::profile(&context["seccompProfile"], "seccompProfile", &at, faults);
    container::profile(&context["appArmorProfile"], "appArmorProfile", &at, faults);
    container::windows_options(&context["windowsOptions"], &at.child("windowsOptions"), faults);
    if spec["hostUsers"] == false {
        // Upstream names these two by their Go fields.
        for (key, go) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
            if spec[key] == true {
                faults.forbidden(&path.child(go), "when `hostUsers` is false");
            }
        }
        for (container, path) in all_containers(spec, path) {
            if !items(container, "volumeDevices").is_empty() {
                faults.forbidden(&path.child("volumeDevices"), "when `hostUsers` is false");
            }
        }
    }
}

/// Which of the kernel's namespaces a setting belongs to; empty for those of the whole machine.
fn namespace_of(name: &str) -> &'static str {
    const IPC: [&str; 10] = [
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    let name = name.replace('/', ".");
    if name.starts_with("net.") {
        "net"
    } else if IPC.contains(&name.as_str()) || name.starts_with("fs.mqueue.") {
        "ipc"
    } else {
        ""
    }
}

fn is_sysctl(name: &str) -> bool {
    let part = |part: &str| {
        let ends = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
            && ends(part.as_bytes().first())
            && ends(part.as_bytes().last())
    };
    name.len() <= 253 && name.split(['.', '/']).all(part)
}

/// What the named operating system does not have must not be asked of it.
pub(in crate::registry::kinds) fn operating_system(spec: &Value, path: &Path, faults: &mut Faults) {
    if spec["os"].is_null() {
        return;
    }
    match text(&spec["os"], "name") {
        "" => faults.required(&path.child("os").child("name"), ""),
        "linux" => linux(spec, path, faults),
        "windows" => windows(spec, path, faults),
        other => faults.not_supported(&path.child("os"), other, &["linux", "windows"]),
    }
}

fn linux(spec: &Value, path: &Path, faults: &mut Faults) {
    const WHY: &str = "windows options cannot be set for a linux pod";
    if has(&spec["securityContext"], "windowsOptions") {
        faults.forbidden(&path.child("securityContext").child("windowsOptions"), WHY);
    }
    for (container, path) in all_containers(spec, path) {
        if has(&container["securityContext"], "windowsOptions") {
            faults.forbidden(&path.child("securityContext").child("windowsOptions"), WHY);
        }
    }
}

fn windows(spec: &Value, path: &Path, faults: &mut Faults) {
    const WHY: &str = "cannot be set for a windows pod";
    for key in ["hostUsers", "shareProcessNamespace"] {
        if has(spec, key) {
            faults.forbidden(&path.child(key), WHY);
        }
    }
    for key in ["hostPID", "hostIPC"] {
        if spec[key] == true {
            faults.forbidden(&path.child(key), WHY);
        }
    }
    for key in [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ] {
        if has(&spec["securityContext"], key) {
            faults.forbidden(&path.child("securityContext").child(key), WHY);
        }
    }
    for (container, path) in all_containers(spec, path) {
        for key in [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "capabilities",
            "readOnlyRootFilesystem",
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "runAsUser",
            "runAsGroup",
        ] {
            if has(&container["securityContext"], key) {
                faults.forbidden(&path.child("securityContext").child(key), WHY);
            }
        }
    }
}

/// Windows containers that are processes of the host are so all together, and with the host's network.
pub(in crate::registry::kinds) fn host_processes(spec: &Value, path: &Path, faults: &mut Faults) {
    let of = |context: &Value| context["windowsOptions"]["hostProcess"].as_bool();
    let pod = of(&spec["securityContext"]);
    let containers = all_containers(spec, path);
    let mut count = 0;
    for (container, path) in &containers {
        let own = of(&container["securityContext"]);
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let at = path.child("securityContext").child("windowsOptions").child("hostProcess");
            let why = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            faults.invalid(&at, Shown(own.to_string()), &why);
        }
        count += usize::from(own.or(pod) == Some(true));
    }
    if count == 0 {
        return;
    }
    if count != containers.len() {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        faults.invalid(path, "", why);
    }
    if spec["hostNetwork"] != true {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        faults.invalid(&path.child("hostNetwork"), Shown("false".to_owned()), why);
    }
}
