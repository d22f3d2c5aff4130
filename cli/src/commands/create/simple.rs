//! `lw create namespace` and `lw create deployment`.

use clap::Args;
use serde_json::{Value, json};

use super::command::HowArgs;
use crate::commands::failure::Failure;

/// Create a namespace
///
/// Examples: lw create namespace blue
#[derive(Debug, Args)]
pub(super) struct NamespaceArgs {
    /// Name of the namespace
    name: String,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

impl NamespaceArgs {
    /// The object that the flags describe.
    pub(super) fn object(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})
    }
}

/// Create a deployment
///
/// Examples: lw create deployment web --image=nginx --replicas=3 --port=80; lw create deployment w --image=busybox --
/// sleep 60
#[derive(Debug, Args)]
pub(super) struct DeploymentArgs {
    /// Name of the deployment
    name: String,
    /// Image of a container; several make several containers
    #[arg(long = "image", value_name = "IMAGE", required = true, value_delimiter = ',')]
    images: Vec<String>,
    /// How many pods
    #[arg(short, long, default_value_t = 1, allow_negative_numbers = true)]
    replicas: i32,
    /// The port that the first container serves
    #[arg(long)]
    port: Option<u16>,
    /// What the container runs instead of the image's own command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

impl DeploymentArgs {
    /// The object that the flags describe, as kubectl 1.36 makes it.
    ///
    /// # Errors
    /// If a command is given for several images.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        if self.images.len() > 1 && !self.command.is_empty() {
            return Err(Failure::usage("cannot specify multiple --image options and command"));
        }
        let mut containers: Vec<Value> = Vec::new();
        for image in &self.images {
            let name = container_name(image, containers.len());
            let mut container = json!({"name": name, "image": image, "resources": {}});
            if !self.command.is_empty() {
                container["command"] = json!(self.command);
            }
            if let Some(port) = self.port.filter(|_| containers.is_empty()) {
                container["ports"] = json!([{"containerPort": port}]);
            }
            containers.push(container);
        }
        let labels = json!({"app": self.name});
        Ok(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {
                "replicas": self.replicas, "selector": {"matchLabels": labels}, "strategy": {},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
            "status": {},
        }))
    }
}

/// The image's own name without tag or digest, fit for a container. (kubectl puts random letters behind one that it had
/// to change; its place among the images makes it unique as well.)
fn container_name(image: &str, place: usize) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    let bare = last.split([':', '@']).next().unwrap_or(last);
    if bare.contains(['_', '.']) { format!("{}-{place}", bare.replace(['_', '.'], "-")) } else { bare.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_named_after_its_image() {
        for (image, name) in [
            ("nginx", "nginx"),
            ("registry.local/team/web:v1", "web"),
            ("localhost:5000/web@sha256:00", "web"),
            ("my_app.v2:1", "my-app-v2-0"),
        ] {
            assert_eq!(container_name(image, 0), name);
        }
    }
}
