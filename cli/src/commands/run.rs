//! `lw run`: one pod from flags.

use std::process::ExitCode;

use clap::Args;
use listwatch_proto::go_quote::quote;
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::generated::{GeneratedArgs, pairs};
use crate::usage::program;

/// Run an image in a pod
///
/// Examples: lw run web --image=nginx --port=80; lw run once --image=busybox --restart=Never -- date; lw run web
/// --image=nginx --dry-run=client -o yaml
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Name of the pod, then arguments of the container
    #[arg(value_name = "NAME")]
    words: Vec<String>,
    /// Image of the container
    #[arg(long, value_name = "IMAGE", required = true)]
    image: String,
    /// Labels of the pod: a=b,c=d; without them run=NAME
    #[arg(short, long, value_name = "PAIRS", default_value = "", hide_default_value = true)]
    labels: String,
    /// An annotation: key=value; may be given several times
    #[arg(long, value_name = "PAIR")]
    annotations: Vec<String>,
    /// A variable of the container: NAME=VALUE; may be given several times
    #[arg(long, value_name = "PAIR")]
    env: Vec<String>,
    /// The port that the container serves
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Create a Service for the port, too
    #[arg(long)]
    expose: bool,
    /// When an ended container is started again: Always, OnFailure or Never
    #[arg(long, value_name = "POLICY", default_value = "Always")]
    restart: String,
    /// When the image is pulled: Always, IfNotPresent or Never
    #[arg(long, value_name = "POLICY", default_value = "", hide_default_value = true)]
    image_pull_policy: String,
    /// Run with extended rights
    #[arg(long)]
    privileged: bool,
    /// What stands behind -- is the container's command, not its arguments
    #[arg(long)]
    command: bool,
    /// Refused by name.
    #[arg(short = 'i', long, hide = true)]
    stdin: bool,
    /// Refused by name.
    #[arg(short = 't', long, hide = true)]
    tty: bool,
    /// Refused by name.
    #[arg(long, hide = true)]
    attach: bool,
    /// Refused by name.
    #[arg(long, hide = true)]
    rm: bool,
    #[command(flatten)]
    generated: GeneratedArgs,
    /// Arguments of the container
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let (name, pod) = args.pod()?;
    let pod = args.generated.overridden(pod)?;
    let mut maker = args.generated.maker("kubectl-run")?;
    let (kind, pod) = maker.create(pod).await?;
    if args.expose {
        let (service_kind, service) = maker.create(args.service(&name)?).await?;
        maker.show(service_kind, &service, "created")?;
    }
    maker.show(kind, &pod, "created")?;
    Ok(ExitCode::SUCCESS)
}

impl RunArgs {
    /// The pod that the flags describe, and its name.
    fn pod(&self) -> Result<(String, Value), Failure> {
        let usage =
            |problem: &str| Failure::usage(format!("{problem}\nSee '{} run -h' for help and examples", program()));
        for (flag, is_given) in
            [("--stdin", self.stdin), ("--tty", self.tty), ("--attach", self.attach), ("--rm", self.rm)]
        {
            if is_given {
                let advice = "nothing is attached to; look at what the pod says with lw logs -f";
                return Err(Failure::usage(format!("{flag} is not supported: {advice}")));
            }
        }
        let Some((name, more)) = self.words.split_first() else {
            return Err(usage("NAME is required for run"));
        };
        if !is_image(&self.image) {
            return Err(Failure::usage(format!("Invalid image name {}: invalid reference format", quote(&self.image))));
        }
        if self.expose && self.port.is_none() {
            return Err(usage("--port must be set when exposing a service"));
        }
        if !["Always", "OnFailure", "Never"].contains(&self.restart.as_str()) {
            return Err(usage(&format!("invalid restart policy: {}", self.restart)));
        }
        if !["", "Always", "IfNotPresent", "Never"].contains(&self.image_pull_policy.as_str()) {
            return Err(usage(&format!("invalid image pull policy: {}", self.image_pull_policy)));
        }
        let arguments: Vec<&String> = more.iter().chain(&self.arguments).collect();
        let mut metadata = json!({"name": name, "labels": self.labels_of(name)?});
        if !self.annotations.is_empty() {
            metadata["annotations"] = self.annotations()?;
        }
        Ok((
            name.clone(),
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {},
                "spec": {
                    "containers": [self.container(name, &arguments)?],
                    "dnsPolicy": "ClusterFirst", "restartPolicy": self.restart,
                },
            }),
        ))
    }

    fn container(&self, name: &str, arguments: &[&String]) -> Result<Value, Failure> {
        let mut container = json!({"name": name, "image": self.image, "resources": {}});
        if !arguments.is_empty() {
            container[if self.command { "command" } else { "args" }] = json!(arguments);
        }
        let mut variables = Vec::new();
        for pair in &self.env {
            match pair.split_once('=') {
                Some((key, value)) if !key.is_empty() => variables.push(json!({"name": key, "value": value})),
                _ => return Err(Failure::usage(format!("invalid env: {pair}"))),
            }
        }
        if !variables.is_empty() {
            container["env"] = variables.into();
        }
        if let Some(port) = self.port {
            container["ports"] = json!([{"containerPort": port}]);
        }
        if !self.image_pull_policy.is_empty() {
            container["imagePullPolicy"] = self.image_pull_policy.as_str().into();
        }
        if self.privileged {
            container["securityContext"] = json!({"privileged": true});
        }
        Ok(container)
    }

    fn labels_of(&self, name: &str) -> Result<Value, Failure> {
        if self.labels.is_empty() { Ok(json!({"run": name})) } else { pairs(&self.labels) }
    }

    fn annotations(&self) -> Result<Value, Failure> {
        let mut annotations = Map::new();
        for pair in &self.annotations {
            let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
                return Err(Failure::usage(format!("Invalid annotations: {pair}, expected key=value")));
            };
            annotations.insert(key.to_owned(), value.into());
        }
        Ok(Value::Object(annotations))
    }

    /// The Service that leads to the pod.
    fn service(&self, name: &str) -> Result<Value, Failure> {
        let port = self.port.unwrap_or_default();
        Ok(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {
                "selector": self.labels_of(name)?,
                "ports": [{"port": port, "protocol": "TCP", "targetPort": port}],
            },
            "status": {"loadBalancer": {}},
        }))
    }
}

/// Whether this names an image: a path with an address before, a tag behind or a digest behind that (the grammar of
/// image references, as kubectl asks for it).
fn is_image(text: &str) -> bool {
    let (text, digest) = text.split_once('@').map_or((text, None), |(text, digest)| (text, Some(digest)));
    let is_digest = |digest: &str| {
        digest.split_once(':').is_some_and(|(kind, hex)| {
            !kind.is_empty() && hex.len() >= 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
        })
    };
    let slash = text.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match text[slash..].split_once(':') {
        Some((last, tag)) => (&text[..slash + last.len()], Some(tag)),
        None => (text, None),
    };
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    let is_tag =
        |tag: &str| !tag.is_empty() && tag.len() <= 128 && tag.bytes().all(is_word) && !tag.starts_with(['.', '-']);
    let parts: Vec<&str> = path.split('/').collect();
    let is_host =
        |part: &str| part.contains(['.', ':']) || part == "localhost" || part.bytes().any(|b| b.is_ascii_uppercase());
    let has_host = parts.len() > 1 && is_host(parts[0]);
    let is_address = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:[]".contains(&b));
    let is_part = |part: &&str| {
        let is_end = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let bytes = part.as_bytes();
        is_end(bytes.first())
            && is_end(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(b))
    };
    digest.is_none_or(is_digest)
        && tag.is_none_or(is_tag)
        && (!has_host || is_address(parts[0]))
        && parts.iter().skip(usize::from(has_host)).all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_from_other_words() {
        let digest = format!("nginx@sha256:{}", "0a".repeat(32));
        for image in ["x", "nginx:1.27", "registry.local/team/web:v1", "localhost:5000/web", "a__b/c-d", &digest] {
            assert!(is_image(image), "{image}");
        }
        for other in ["", "bad image", "Upper", "a//b", "x:", "x:-a", "x@sha256:zz", "a/", "-a"] {
            assert!(!is_image(other), "{other}");
        }
    }
}
