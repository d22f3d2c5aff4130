//! `lw autoscale`: a HorizontalPodAutoscaler for a workload.

use std::process::ExitCode;

use clap::Args;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object};
use serde_json::{Value, json};

use super::failure::{Failure, Report};
use super::generated::GeneratedArgs;
use super::manifest::FileArgs;
use super::selection::{Chosen, Naming};
use crate::terminal::tell;

/// Have the number of replicas follow the load
///
/// Examples: lw autoscale deploy web --min=2 --max=5 --cpu=70%; lw autoscale rs/old --max=3
#[derive(Debug, Args)]
#[command(mut_arg("cluster", |arg| arg.long("cluster-name")))]
pub(crate) struct AutoscaleArgs {
    /// KIND NAME or KIND/NAME
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    /// Name of the autoscaler; without it the workload's
    #[arg(long = "name", value_name = "NAME", default_value = "", hide_default_value = true)]
    autoscaler_name: String,
    /// The fewest replicas
    #[arg(long, value_name = "COUNT", default_value_t = -1, hide_default_value = true, allow_negative_numbers = true)]
    min: i32,
    /// The most replicas
    #[arg(long, value_name = "COUNT", required = true, allow_negative_numbers = true)]
    max: i32,
    /// How much CPU the pods shall use: a share of what they request (70%), or an amount each (500m)
    #[arg(long, value_name = "SHARE%|QUANTITY", default_value = "", hide_default_value = true)]
    cpu: String,
    /// The same for memory
    #[arg(long, value_name = "SHARE%|QUANTITY", default_value = "", hide_default_value = true)]
    memory: String,
    /// The older form of --cpu: a share of what the pods request
    #[arg(long, value_name = "SHARE", hide = true, allow_negative_numbers = true)]
    cpu_percent: Option<i32>,
    #[command(flatten)]
    generated: GeneratedArgs,
}

/// Runs the command.
pub(crate) async fn run(args: &AutoscaleArgs) -> Result<ExitCode, Failure> {
    if args.cpu_percent.is_some() {
        tell!(
            "Flag --cpu-percent has been deprecated, Use --cpu with percentage or resource quantity format (e.g., \
             '70%' for utilization or '500m' for milliCPU)."
        );
    }
    let metrics = args.metrics()?;
    let mut maker = args.generated.maker("kubectl-autoscale")?;
    let naming = Naming { words: &args.words, files: &args.files, labels: "", fields: "", all: false };
    let found = naming.find(&maker.session, "autoscale").await?;
    if found.chosen.is_empty() && found.failures.is_empty() {
        return Err(Failure::plain("no objects passed to autoscale"));
    }
    let mut report = Report::default();
    for Chosen { kind, object } in &found.chosen {
        let autoscaler = args.generated.overridden(args.autoscaler(kind, object, &metrics)?)?;
        match maker.create(autoscaler).await {
            Ok((kind, autoscaler)) => maker.show(kind, &autoscaler, "autoscaled")?,
            Err(failure) => report.fail(failure),
        }
    }
    found.failures.into_iter().for_each(|failure| report.fail(failure));
    Ok(report.exit_code())
}

impl AutoscaleArgs {
    /// What is measured.
    fn metrics(&self) -> Result<Vec<Value>, Failure> {
        let (min, max) = (self.min, self.max);
        if max < 1 {
            return Err(Failure::usage(format!("--max=MAXPODS is required and must be at least 1, max: {max}")));
        }
        if max < min {
            return Err(Failure::usage(format!(
                "--max=MAXPODS must be larger or equal to --min=MINPODS, max: {max}, min: {min}"
            )));
        }
        let percent = self.cpu_percent.filter(|share| *share > 0);
        if percent.is_some() && !self.cpu.is_empty() {
            return Err(Failure::usage("--cpu-percent and --cpu are mutually exclusive"));
        }
        let cpu = percent.map_or_else(|| self.cpu.clone(), |share| format!("{share}%"));
        let mut metrics = Vec::new();
        for (name, text) in [("cpu", cpu.as_str()), ("memory", &self.memory)] {
            if text.is_empty() {
                continue;
            }
            let target = match text.strip_suffix('%') {
                None => json!({"type": "AverageValue", "averageValue": text}),
                Some(share) => {
                    let share: i32 = share.parse().ok().filter(|share| *share > 0).ok_or_else(|| {
                        Failure::usage(format!(
                            "--{name}: {text} is neither a share (70%) nor a quantity (500m)",
                            text = quote(&text)
                        ))
                    })?;
                    json!({"type": "Utilization", "averageUtilization": share})
                }
            };
            metrics.push(json!({"type": "Resource", "resource": {"name": name, "target": target}}));
        }
        Ok(metrics)
    }

    fn autoscaler(&self, kind: &Kind, object: &Object, metrics: &[Value]) -> Result<Value, Failure> {
        if !kind.has_subresource("scale") {
            let version = if kind.group.is_empty() { format!("/{}", kind.version) } else { kind.api_version() };
            return Err(Failure::plain(format!(
                "cannot autoscale a {}: could not find scale subresource for {version}, Resource={} in discovery \
                 information",
                kind.kind, kind.plural
            )));
        }
        let name = if self.autoscaler_name.is_empty() { object.name() } else { &self.autoscaler_name };
        let mut spec = json!({
            "scaleTargetRef": {"apiVersion": kind.api_version(), "kind": kind.kind, "name": object.name()},
            "maxReplicas": self.max,
        });
        if self.min > 0 {
            spec["minReplicas"] = self.min.into();
        }
        if !metrics.is_empty() {
            spec["metrics"] = metrics.into();
        }
        Ok(json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
            "spec": spec, "status": {"currentMetrics": null, "desiredReplicas": 0},
        }))
    }
}
