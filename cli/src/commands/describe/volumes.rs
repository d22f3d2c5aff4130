//! The volumes of a pod.

use listwatch_proto::resource::Object;
use serde_json::Value;

/// Describes the volumes of a pod, or (with an indent) of a pod template; says so if there are none.
pub(super) fn volumes(out: &mut String, pod: &Object, indent: &str) {
    let list = pod.at(&["spec", "volumes"]).and_then(Value::as_array).filter(|list| !list.is_empty());
    let Some(list) = list else {
        out.push_str(&format!("{indent}Volumes:\t<none>\n"));
        return;
    };
    out.push_str(&format!("{indent}Volumes:\n"));
    // Names stand one space further in where the heading does.
    let deeper = if indent.is_empty() { "" } else { " " };
    for volume in list {
        out.push_str(&format!("  {deeper}{}:\n", volume["name"].as_str().unwrap_or_default()));
        for (name, value) in facts(volume) {
            out.push_str(&format!("    {name}:\t{value}\n"));
        }
    }
}

/// Names and values, in order.
pub(super) type Facts = Vec<(&'static str, String)>;

fn facts(volume: &Value) -> Facts {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let flag = |value: &Value| (value == true).to_string();
    if let Some(source) = volume.get("emptyDir") {
        let limit = source["sizeLimit"].as_str().unwrap_or("<unset>").to_owned();
        return vec![
            ("Type", "EmptyDir (a temporary directory that shares a pod's lifetime)".to_owned()),
            ("Medium", text(&source["medium"])),
            ("SizeLimit", limit),
        ];
    }
    if let Some(source) = volume.get("configMap") {
        return vec![
            ("Type", "ConfigMap (a volume populated by a ConfigMap)".to_owned()),
            ("Name", text(&source["name"])),
            ("Optional", flag(&source["optional"])),
        ];
    }
    if let Some(source) = volume.get("secret") {
        return vec![
            ("Type", "Secret (a volume populated by a Secret)".to_owned()),
            ("SecretName", text(&source["secretName"])),
            ("Optional", flag(&source["optional"])),
        ];
    }
    if let Some(source) = volume.get("hostPath") {
        return vec![
            ("Type", "HostPath (bare host directory volume)".to_owned()),
            ("Path", text(&source["path"])),
            ("HostPathType", text(&source["type"])),
        ];
    }
    if let Some(source) = volume.get("nfs") {
        return nfs(source);
    }
    if let Some(source) = volume.get("persistentVolumeClaim") {
        let kind = "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)";
        return vec![
            ("Type", kind.to_owned()),
            ("ClaimName", text(&source["claimName"])),
            ("ReadOnly", flag(&source["readOnly"])),
        ];
    }
    if let Some(source) = volume.get("projected") {
        return projected(source);
    }
    if volume.get("downwardAPI").is_some() {
        return vec![("Type", "DownwardAPI (a volume populated by information about the pod)".to_owned())];
    }
    vec![("Type", "<unknown>".to_owned())]
}

fn nfs(source: &Value) -> Facts {
    let text = |field: &str| source[field].as_str().unwrap_or_default().to_owned();
    vec![
        ("Type", "NFS (an NFS mount that lasts the lifetime of a pod)".to_owned()),
        ("Server", text("server")),
        ("Path", text("path")),
        ("ReadOnly", (source["readOnly"] == true).to_string()),
    ]
}

/// Where a persistent volume lies; empty: in a way that is not described.
pub(super) fn source_facts(spec: &Value) -> Facts {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(source) = spec.get("local") {
        let kind = "LocalVolume (a persistent volume backed by local storage on a node)";
        return vec![("Type", kind.to_owned()), ("Path", text(&source["path"]))];
    }
    if let Some(source) = spec.get("csi") {
        return vec![
            ("Type", "CSI (a Container Storage Interface (CSI) volume source)".to_owned()),
            ("Driver", text(&source["driver"])),
            ("FSType", text(&source["fsType"])),
            ("VolumeHandle", text(&source["volumeHandle"])),
            ("ReadOnly", (source["readOnly"] == true).to_string()),
        ];
    }
    if spec.get("hostPath").is_some() || spec.get("nfs").is_some() { facts(spec) } else { Facts::new() }
}

fn projected(source: &Value) -> Facts {
    let mut facts = vec![("Type", "Projected (a volume that contains injected data from multiple sources)".to_owned())];
    for part in source["sources"].as_array().into_iter().flatten() {
        let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
        if let Some(token) = part.get("serviceAccountToken") {
            let seconds = token["expirationSeconds"].as_i64().unwrap_or(0);
            facts.push(("TokenExpirationSeconds", seconds.to_string()));
        } else if let Some(map) = part.get("configMap") {
            facts.push(("ConfigMapName", name(map)));
            facts.push(("Optional", (map["optional"] == true).to_string()));
        } else if let Some(secret) = part.get("secret") {
            facts.push(("SecretName", name(secret)));
            facts.push(("Optional", (secret["optional"] == true).to_string()));
        } else if part.get("downwardAPI").is_some() {
            facts.push(("DownwardAPI", "true".to_owned()));
        }
    }
    facts
}
