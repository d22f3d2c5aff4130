//! The containers of a pod.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::text::time;

/// Which containers.
pub(super) struct Part {
    /// Heading.
    pub(super) label: &'static str,
    /// Field of `spec`.
    pub(super) spec: &'static str,
    /// Field of `status`.
    pub(super) status: &'static str,
}

/// Describes one group of containers, if there are any.
pub(super) fn containers(out: &mut String, pod: &Object, part: &Part) {
    let list = pod.at(&["spec", part.spec]).and_then(Value::as_array).filter(|list| !list.is_empty());
    let Some(list) = list else { return };
    out.push_str(&format!("{}:\n", part.label));
    for container in list {
        let statuses = pod.at(&["status", part.status]).and_then(Value::as_array);
        let status = statuses.and_then(|list| list.iter().find(|s| s["name"] == container["name"]));
        out.push_str(&format!("  {}:\n", text(container, "name")));
        describe(out, pod, container, status);
    }
}

/// Describes one group of the containers of a pod template, one space further in than those of a pod.
pub(super) fn of_template(out: &mut String, template: &Object, label: &str, field: &str) {
    let list = template.at(&["spec", field]).and_then(Value::as_array).filter(|list| !list.is_empty());
    let Some(list) = list else { return };
    out.push_str(&format!("  {label}:\n"));
    for container in list {
        out.push_str(&format!("   {}:\n", text(container, "name")));
        describe(out, template, container, None);
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn describe(out: &mut String, pod: &Object, container: &Value, status: Option<&Value>) {
    if let Some(status) = status {
        out.push_str(&format!("    Container ID:\t{}\n", text(status, "containerID")));
    }
    out.push_str(&format!("    Image:\t{}\n", text(container, "image")));
    if let Some(status) = status {
        out.push_str(&format!("    Image ID:\t{}\n", text(status, "imageID")));
    }
    ports(out, container);
    for (label, field) in [("Command", "command"), ("Args", "args")] {
        words(out, label, &container[field]);
    }
    if let Some(status) = status {
        state(out, "State", &status["state"]);
        if status["lastState"]["terminated"].is_object() {
            state(out, "Last State", &status["lastState"]);
        }
        let ready = if status["ready"] == true { "True" } else { "False" };
        out.push_str(&format!("    Ready:\t{ready}\n"));
        out.push_str(&format!("    Restart Count:\t{}\n", status["restartCount"].as_i64().unwrap_or(0)));
    }
    for (label, field) in [("Limits", "limits"), ("Requests", "requests")] {
        resources(out, label, &container["resources"][field]);
    }
    for (label, field) in [("Liveness", "livenessProbe"), ("Readiness", "readinessProbe"), ("Startup", "startupProbe")]
    {
        if container[field].is_object() {
            out.push_str(&format!("    {label}:\t{}\n", probe(&container[field])));
        }
    }
    environment(out, pod, container);
    mounts(out, container);
}

fn ports(out: &mut String, container: &Value) {
    let list = container["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let plural = if list.len() > 1 { "s" } else { "" };
    let shown = |number: &str| {
        let all: Vec<String> = list
            .iter()
            .map(|port| {
                let protocol = port["protocol"].as_str().unwrap_or("TCP");
                let name = port["name"].as_str().map_or_else(String::new, |name| format!(" ({name})"));
                format!("{}/{protocol}{name}", port[number].as_i64().unwrap_or(0))
            })
            .collect();
        if all.is_empty() { "<none>".to_owned() } else { all.join(", ") }
    };
    out.push_str(&format!("    Port{plural}:\t{}\n", shown("containerPort")));
    out.push_str(&format!("    Host Port{plural}:\t{}\n", shown("hostPort")));
}

fn words(out: &mut String, label: &str, list: &Value) {
    let Some(list) = list.as_array().filter(|list| !list.is_empty()) else { return };
    out.push_str(&format!("    {label}:\n"));
    for line in list.iter().filter_map(Value::as_str).flat_map(|word| word.split('\n')) {
        out.push_str(&format!("      {line}\n"));
    }
}

fn state(out: &mut String, label: &str, state: &Value) {
    let mut line = |indent: &str, name: &str, value: &str| {
        out.push_str(&format!("{indent}{name}:\t{value}\n"));
    };
    let when = |state: &Value, field: &str| time(text(state, field));
    if let Some(running) = state.get("running") {
        line("    ", label, "Running");
        if !text(running, "startedAt").is_empty() {
            line("      ", "Started", &when(running, "startedAt"));
        }
    } else if let Some(ended) = state.get("terminated") {
        line("    ", label, "Terminated");
        for (name, field) in [("Reason", "reason"), ("Message", "message")] {
            if !text(ended, field).is_empty() {
                line("      ", name, text(ended, field));
            }
        }
        line("      ", "Exit Code", &ended["exitCode"].as_i64().unwrap_or(0).to_string());
        if let Some(signal) = ended["signal"].as_i64().filter(|signal| *signal > 0) {
            line("      ", "Signal", &signal.to_string());
        }
        for (name, field) in [("Started", "startedAt"), ("Finished", "finishedAt")] {
            if !text(ended, field).is_empty() {
                line("      ", name, &when(ended, field));
            }
        }
    } else {
        line("    ", label, "Waiting");
        for (name, field) in [("Reason", "reason"), ("Message", "message")] {
            let value = text(&state["waiting"], field);
            if name == "Reason" && !value.is_empty() {
                line("      ", name, value);
            }
        }
    }
}

fn resources(out: &mut String, label: &str, list: &Value) {
    let Some(list) = list.as_object().filter(|list| !list.is_empty()) else { return };
    out.push_str(&format!("    {label}:\n"));
    for (name, amount) in list {
        let amount = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        out.push_str(&format!("      {name}:\t{amount}\n"));
    }
}

fn probe(probe: &Value) -> String {
    let number = |field: &str| probe[field].as_i64().unwrap_or(0);
    let attributes = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        number("initialDelaySeconds"),
        number("timeoutSeconds"),
        number("periodSeconds"),
        number("successThreshold"),
        number("failureThreshold"),
    );
    let port = |action: &Value| action["port"].as_str().map_or_else(|| action["port"].to_string(), str::to_owned);
    if let Some(exec) = probe.get("exec") {
        let words: Vec<_> = exec["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        return format!("exec [{}] {attributes}", words.join(" "));
    }
    if let Some(get) = probe.get("httpGet") {
        let scheme = get["scheme"].as_str().unwrap_or("HTTP").to_lowercase();
        let path = get["path"].as_str().unwrap_or("/");
        return format!("http-get {scheme}://{}:{}{path} {attributes}", text(get, "host"), port(get));
    }
    if let Some(socket) = probe.get("tcpSocket") {
        return format!("tcp-socket {}:{} {attributes}", text(socket, "host"), port(socket));
    }
    if let Some(grpc) = probe.get("grpc") {
        return format!("grpc <pod>:{} {} {attributes}", port(grpc), text(grpc, "service"));
    }
    format!("unknown {attributes}")
}

fn environment(out: &mut String, pod: &Object, container: &Value) {
    if let Some(sources) = container["envFrom"].as_array().filter(|list| !list.is_empty()) {
        out.push_str("    Environment Variables from:\n");
        for source in sources {
            let (kind, reference) = match source.get("configMapRef") {
                Some(reference) => ("ConfigMap", reference),
                None => ("Secret", &source["secretRef"]),
            };
            let prefix = source["prefix"].as_str().filter(|p| !p.is_empty());
            let prefix = prefix.map_or_else(String::new, |p| format!(" with prefix '{p}'"));
            let optional = reference["optional"] == true;
            out.push_str(&format!("      {}\t{kind}{prefix}\tOptional: {optional}\n", text(reference, "name")));
        }
    }
    let Some(list) = container["env"].as_array().filter(|list| !list.is_empty()) else {
        out.push_str("    Environment:\t<none>\n");
        return;
    };
    out.push_str("    Environment:\n");
    for variable in list {
        out.push_str(&format!("      {}:\t{}\n", text(variable, "name"), value_of(pod, variable)));
    }
}

fn value_of(pod: &Object, variable: &Value) -> String {
    let from = &variable["valueFrom"];
    let optional = |reference: &Value| reference["optional"] == true;
    if let Some(field) = from.get("fieldRef") {
        let path = text(field, "fieldPath");
        let value = match path {
            "metadata.name" => pod.name(),
            "metadata.namespace" => pod.namespace(),
            "metadata.uid" => pod.uid(),
            _ => "",
        };
        return format!("{value} ({}:{path})", field["apiVersion"].as_str().unwrap_or("v1"));
    }
    if let Some(resource) = from.get("resourceFieldRef") {
        return format!("({})", text(resource, "resource"));
    }
    if let Some(secret) = from.get("secretKeyRef") {
        let (key, name) = (text(secret, "key"), text(secret, "name"));
        return format!("<set to the key '{key}' in secret '{name}'>\tOptional: {}", optional(secret));
    }
    if let Some(map) = from.get("configMapKeyRef") {
        let (key, name) = (text(map, "key"), text(map, "name"));
        return format!("<set to the key '{key}' of config map '{name}'>\tOptional: {}", optional(map));
    }
    text(variable, "value").replace('\n', "\n      \t")
}

fn mounts(out: &mut String, container: &Value) {
    let mut lines: Vec<String> = container["volumeMounts"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|mount| {
            let mode = if mount["readOnly"] == true { "ro" } else { "rw" };
            let sub = mount["subPath"].as_str().filter(|p| !p.is_empty());
            let sub = sub.map_or_else(String::new, |path| format!(",path=\"{path}\""));
            format!("      {} from {} ({mode}{sub})\n", text(mount, "mountPath"), text(mount, "name"))
        })
        .collect();
    if lines.is_empty() {
        out.push_str("    Mounts:\t<none>\n");
        return;
    }
    lines.sort();
    out.push_str("    Mounts:\n");
    lines.iter().for_each(|line| out.push_str(line));
}
