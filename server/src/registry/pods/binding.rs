//! The binding of a pod to a node: sets `spec.nodeName`, once.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Object, Status, time};
use serde_json::{Value, json};

use crate::registry::body::{self, Expected};
use crate::registry::current::{Current, ROUNDS_MAX};
use crate::registry::update::{invalid_object, parse_revision, too_busy};
use crate::registry::{Registry, RequestContext, StoredObject, Target, WriteOptions, Written};

const BINDING: Expected<'static> =
    Expected { api_version: "v1", kind: "Binding", schema: "core/v1.Binding", custom: None };

impl Registry {
    /// Binds a pod. The answer is a Status of success.
    pub(in crate::registry) async fn bind(
        &self,
        context: &RequestContext,
        target: &Target,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let body = body::read(BINDING, body, options.field_validation)?;
        let (mut binding, warnings) = (body.object, body.warnings);
        self.place(target, &mut binding)?;
        // Sent to the collection of bindings, it names its pod alone.
        let mut target = target.clone();
        if target.name.is_empty() {
            target.name = binding.name().to_owned();
        }
        let target = &target;
        if binding.name() != target.name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        check_target(&binding)?;
        if target.name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        for _ in 0..ROUNDS_MAX {
            let Some(current) = self.current(target.kind, binding.namespace(), &target.name).await? else {
                return Err(Status::not_found(target.kind, &target.name));
            };
            check_preconditions(target, &binding, &current)?;
            let pod = self.assigned(target, &binding, &current)?;
            let written = if options.dry_run {
                true
            } else {
                self.write_back(context, target.kind, &current, pod).await?.is_some()
            };
            if written {
                let object = StoredObject::success(target.kind);
                return Ok(Written { revision: self.revision(), object, created: true, warnings });
            }
        }
        Err(too_busy(target.kind, &target.name))
    }

    /// The pod as it is once bound.
    fn assigned(&self, target: &Target, binding: &Object, current: &Current) -> Result<Object, Status> {
        let mut pod = current.object.clone();
        let name = pod.name().to_owned();
        let conflict = |why: String| {
            let mut status = Status::conflict(target.kind, &name, "");
            status.message = format!("Operation cannot be fulfilled on pods/binding \"{name}\": {why}");
            status.kind = "pods/binding".to_owned();
            status
        };
        if pod.is_terminating() {
            return Err(conflict(format!("pod {name} is being deleted, cannot be assigned to a host")));
        }
        let node = pod.text(&["spec", "nodeName"]);
        if !node.is_empty() {
            return Err(conflict(format!("pod {name} is already assigned to node {node}", node = quote(&node))));
        }
        if pod.at(&["spec", "schedulingGates"]).and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()) {
            return Err(conflict(format!("pod {name} has non-empty .spec.schedulingGates")));
        }
        pod.set(&["spec", "nodeName"], binding.text(&["target", "name"]));
        for key in ["labels", "annotations"] {
            for (name, value) in binding.at(&["metadata", key]).and_then(Value::as_object).into_iter().flatten() {
                pod.set(&["metadata", key, name], value.clone());
            }
        }
        // The promise is kept or void.
        pod.remove(&["status", "nominatedNodeName"]);
        set_scheduled(&mut pod, &time(self.now()));
        Ok(pod)
    }
}

/// The condition that the scheduler has done its part.
fn set_scheduled(pod: &mut Object, now: &str) {
    let conditions = pod.at_mut(&["status", "conditions"]);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    let scheduled = |since: &Value| json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": since});
    match conditions.iter_mut().find(|c| c["type"] == "PodScheduled") {
        Some(condition) => {
            let since =
                if condition["status"] == "True" { condition["lastTransitionTime"].clone() } else { json!(now) };
            *condition = scheduled(&since);
        }
        None => conditions.push(scheduled(&json!(now))),
    }
}

fn check_target(binding: &Object) -> Result<(), Status> {
    // Upstream answers 500 to these; they are the client's fault.
    let kind = binding.text(&["target", "kind"]);
    if !matches!(kind, "" | "Node") {
        let message =
            format!("target.kind: Unsupported value: {}: supported values: \"Node\", \"<empty>\"", quote(&kind));
        return Err(Status::bad_request(message));
    }
    if binding.text(&["target", "name"]).is_empty() {
        return Err(Status::bad_request("target.name: Required value"));
    }
    Ok(())
}

fn check_preconditions(target: &Target, binding: &Object, current: &Current) -> Result<(), Status> {
    let refuse = |what: &str, wanted: &str, own: &str| {
        let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {own}");
        Err(Status::conflict(target.kind, &target.name, &invalid_object(current, &why)))
    };
    let uid = binding.uid();
    if !uid.is_empty() && uid != current.object.uid() {
        return refuse("UID", uid, current.object.uid());
    }
    let wanted = binding.text(&["metadata", "resourceVersion"]);
    if parse_revision(wanted)? != 0 && wanted != current.revision.to_string() {
        return refuse("ResourceVersion", wanted, &current.revision.to_string());
    }
    Ok(())
}
