//! What runs: `lw create deployment`, `job` and `cronjob`.

use clap::Args;
use listwatch_proto::resource::{Kind, Object};
use serde_json::{Value, json};

use super::command::HowArgs;
use super::name::NameArgs;
use crate::commands::failure::Failure;
use crate::commands::session::{Session, parse_targets};

/// Create a deployment
///
/// Examples: lw create deployment web --image=nginx --replicas=3 --port=80; lw create deployment w --image=busybox --
/// sleep 60
#[derive(Debug, Args)]
pub(super) struct DeploymentArgs {
    #[command(flatten)]
    name: NameArgs,
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
        let name = self.name.one("deployment")?;
        if self.images.len() > 1 && !self.command.is_empty() {
            return Err(Failure::usage("cannot specify multiple --image options and command"));
        }
        let mut containers: Vec<Value> = Vec::new();
        for image in &self.images {
            let mut container =
                json!({"name": container_name(image, containers.len()), "image": image, "resources": {}});
            if !self.command.is_empty() {
                container["command"] = json!(self.command);
            }
            if let Some(port) = self.port.filter(|_| containers.is_empty()) {
                container["ports"] = json!([{"containerPort": port}]);
            }
            containers.push(container);
        }
        let labels = json!({"app": name});
        Ok(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "labels": labels},
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

/// Create a job
///
/// Examples: lw create job once --image=busybox -- date; lw create job now --from=cronjob/nightly
#[derive(Debug, Args)]
pub(super) struct JobArgs {
    #[command(flatten)]
    name: NameArgs,
    /// Image of the container
    #[arg(long, value_name = "IMAGE", default_value = "", hide_default_value = true)]
    image: String,
    /// A cronjob whose job it is
    #[arg(long, value_name = "cronjob/NAME", default_value = "", hide_default_value = true)]
    from: String,
    /// What the container runs instead of the image's own command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

impl JobArgs {
    /// The object that the flags describe.
    ///
    /// # Errors
    /// Unless exactly one of an image and an existing cronjob is named.
    pub(super) async fn object(&self) -> Result<Value, Failure> {
        let name = self.name.one("job")?;
        match (self.image.as_str(), self.from.as_str()) {
            ("", "") => Err(Failure::usage("either --image or --from must be specified")),
            (image, "") => Ok(json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
                "spec": pod_of_job(name, image, &self.command, "Never"), "status": {},
            })),
            ("", from) if self.command.is_empty() => self.by_hand(name, from).await,
            ("", _) => Err(Failure::usage("cannot specify --from and command")),
            _ => Err(Failure::usage("either --image or --from must be specified")),
        }
    }

    /// The job that the cronjob would make now.
    async fn by_hand(&self, name: &str, from: &str) -> Result<Value, Failure> {
        let session = self.how.session()?;
        let targets = parse_targets(&[from.to_owned()])?;
        let [target] = targets.as_slice() else { return Err(Failure::usage("from must be an existing cronjob")) };
        let [source] = target.names.as_slice() else { return Err(Failure::usage("from must be an existing cronjob")) };
        if target.kind.kind != "CronJob" {
            return Err(Failure::usage("from must be an existing cronjob"));
        }
        let cronjob = read(&session, target.kind, source).await?;
        let template = cronjob.at(&["spec", "jobTemplate"]).cloned().unwrap_or_default();
        let mut annotations = template["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        annotations.insert("cronjob.kubernetes.io/instantiate".to_owned(), "manual".into());
        let mut job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": name, "annotations": annotations,
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "CronJob", "name": source, "controller": true,
                    "uid": cronjob.text(&["metadata", "uid"]),
                }],
            },
            "spec": template["spec"], "status": {},
        });
        if !template["metadata"]["labels"].is_null() {
            job["metadata"]["labels"] = template["metadata"]["labels"].clone();
        }
        Ok(job)
    }
}

async fn read(session: &Session, kind: &'static Kind, name: &str) -> Result<Object, Failure> {
    Ok(session.api(kind).get(&session.key(kind, name)).await?.object)
}

/// The spec of a job of one container.
fn pod_of_job(name: &str, image: &str, command: &[String], restart: &str) -> Value {
    let mut container = json!({"name": name, "image": image, "resources": {}});
    if !command.is_empty() {
        container["command"] = json!(command);
    }
    json!({"template": {"metadata": {}, "spec": {"containers": [container], "restartPolicy": restart}}})
}

/// Create a cronjob
///
/// Examples: lw create cronjob nightly --image=busybox --schedule='0 3 * * *' -- date
#[derive(Debug, Args)]
pub(super) struct CronJobArgs {
    #[command(flatten)]
    name: NameArgs,
    /// Image of the container
    #[arg(long, value_name = "IMAGE", required = true)]
    image: String,
    /// When: minute, hour, day, month, weekday
    #[arg(long, value_name = "SCHEDULE", required = true)]
    schedule: String,
    /// When a container that ended is started again: OnFailure or Never
    #[arg(long, value_name = "POLICY", default_value = "OnFailure")]
    restart: String,
    /// What the container runs instead of the image's own command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

impl CronJobArgs {
    /// The object that the flags describe.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let name = self.name.one("cronjob")?;
        let job = pod_of_job(name, &self.image, &self.command, &self.restart);
        Ok(json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
            "spec": {"schedule": self.schedule, "jobTemplate": {"metadata": {"name": name}, "spec": job}},
            "status": {},
        }))
    }
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
