//! Objects of few fields: `lw create namespace`, `serviceaccount`, `quota`, `poddisruptionbudget` and `priorityclass`.

use clap::Args;
use listwatch_proto::resource::LabelSelector;
use serde_json::{Map, Value, json};

use super::command::HowArgs;
use super::name::NameArgs;
use crate::commands::failure::Failure;

/// Create a namespace
///
/// Examples: lw create namespace blue
#[derive(Debug, Args)]
pub(super) struct NamespaceArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

impl NamespaceArgs {
    /// The object that the flags describe.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let name = self.name.one("namespace")?;
        Ok(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {}, "status": {}}))
    }
}

/// Create a service account
///
/// Examples: lw create serviceaccount robot
#[derive(Debug, Args)]
pub(super) struct ServiceAccountArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

impl ServiceAccountArgs {
    /// The object that the flags describe.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let name = self.name.one("serviceaccount")?;
        Ok(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}))
    }
}

/// Create a quota of a namespace
///
/// Examples: lw create quota small --hard=pods=3,requests.cpu=2; lw create quota q --hard=pods=1 --scopes=BestEffort
#[derive(Debug, Args)]
pub(super) struct QuotaArgs {
    #[command(flatten)]
    name: NameArgs,
    /// How much there may be: pods=3,requests.cpu=2
    #[arg(long, value_name = "RESOURCE=QUANTITY,…", default_value = "", hide_default_value = true)]
    hard: String,
    /// Only of objects to which all of these apply: BestEffort, NotTerminating, …
    #[arg(long, value_name = "SCOPE,…", default_value = "", hide_default_value = true)]
    scopes: String,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

impl QuotaArgs {
    /// The object that the flags describe.
    ///
    /// # Errors
    /// If an amount is no pair, or a scope is empty.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let name = self.name.one("quota")?;
        let mut spec = Map::new();
        if !self.hard.is_empty() {
            let mut hard = Map::new();
            for pair in self.hard.split(',') {
                let Some((resource, amount)) = pair.split_once('=').filter(|(_, amount)| !amount.contains('=')) else {
                    return Err(Failure::usage(format!("Invalid argument syntax {pair}, expected <resource>=<value>")));
                };
                hard.insert(resource.to_owned(), amount.into());
            }
            spec.insert("hard".to_owned(), Value::Object(hard));
        }
        if !self.scopes.is_empty() {
            let scopes: Vec<&str> = self.scopes.split(',').collect();
            if scopes.contains(&"") {
                return Err(Failure::usage("invalid resource quota scope \"\""));
            }
            spec.insert("scopes".to_owned(), json!(scopes));
        }
        Ok(json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec, "status": {},
        }))
    }
}

/// Create a budget of how many pods may be disturbed at a time
///
/// Examples: lw create pdb web --selector=app=web --min-available=2; lw create pdb w --selector=a=b --max-unavailable=30%
#[derive(Debug, Args)]
pub(super) struct BudgetArgs {
    #[command(flatten)]
    name: NameArgs,
    /// The pods
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// How many must stay: a number or a share
    #[arg(long, value_name = "COUNT|SHARE%", default_value = "", hide_default_value = true)]
    min_available: String,
    /// How many may be away: a number or a share
    #[arg(long, value_name = "COUNT|SHARE%", default_value = "", hide_default_value = true)]
    max_unavailable: String,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

impl BudgetArgs {
    /// The object that the flags describe.
    ///
    /// # Errors
    /// Unless the pods and exactly one limit are named.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let name = self.name.one("poddisruptionbudget")?;
        if self.selector.is_empty() {
            return Err(Failure::usage("a selector must be specified"));
        }
        let (field, text) = match (self.min_available.as_str(), self.max_unavailable.as_str()) {
            ("", "") => return Err(Failure::usage("one of min-available or max-unavailable must be specified")),
            (min, "") => ("minAvailable", min),
            ("", max) => ("maxUnavailable", max),
            _ => return Err(Failure::usage("min-available and max-unavailable cannot be both specified")),
        };
        let flag = if field == "minAvailable" { "min-available" } else { "max-unavailable" };
        let wrong = || Failure::usage(format!("invalid format specified for {flag}"));
        let limit = match text.strip_suffix('%') {
            Some(share) if share.bytes().all(|b| b.is_ascii_digit()) && !share.is_empty() => json!(text),
            Some(_) => return Err(wrong()),
            None => json!(text.parse::<u32>().map_err(|_| wrong())?),
        };
        let mut object = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": {"selector": label_selector(&self.selector)?},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
        });
        object["spec"][field] = limit;
        Ok(object)
    }
}

/// A selector's text as an object holds it.
fn label_selector(text: &str) -> Result<Value, Failure> {
    let selector = LabelSelector::parse(text).and_then(|selector| selector.to_json());
    selector.map_err(|problem| Failure::usage(problem.to_string()))
}

/// Create a priority of pods
///
/// Examples: lw create priorityclass high --value=1000 --description='before others'
#[derive(Debug, Args)]
pub(super) struct PriorityArgs {
    #[command(flatten)]
    name: NameArgs,
    /// The higher one goes first
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    value: i32,
    /// Pods that name no class have this one
    #[arg(long)]
    global_default: bool,
    /// What it is for
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    /// Whether lower pods make room: PreemptLowerPriority or Never
    #[arg(long, value_name = "POLICY", default_value = "PreemptLowerPriority")]
    preemption_policy: String,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

impl PriorityArgs {
    /// The object that the flags describe.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let name = self.name.one("priorityclass")?;
        let mut object = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": self.value, "preemptionPolicy": self.preemption_policy,
        });
        if self.global_default {
            object["globalDefault"] = true.into();
        }
        if !self.description.is_empty() {
            object["description"] = self.description.as_str().into();
        }
        Ok(object)
    }
}
