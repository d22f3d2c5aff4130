//! The rules of what a pod asks for as a whole.

use listwatch_proto::resource::Quantity;
use listwatch_proto::resource::requests::PodResources;
use serde_json::{Value, json};

use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{entries, has, items, text};
use crate::registry::kinds::vocabulary::resources;
use crate::registry::kinds::vocabulary::resources::Of;

/// Every fault of the pod's own resources.
pub(in crate::registry::kinds) fn validate(spec: &Value, path: &Path, faults: &mut Faults) {
    let own = &spec["resources"];
    if own.is_null() {
        return;
    }
    let path = path.child("resources");
    if text(&spec["os"], "name") == "windows" {
        faults.forbidden(&path, "may not be set for a windows pod");
        return;
    }
    if has(own, "claims") {
        faults.forbidden(&path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    resources::validate(spec, own, Of::Pod, &path, faults);
    // What the containers ask for together, whatever the pod says.
    let containers = PodResources::of_spec(spec).map(|mut pod| {
        pod.resources = None;
        pod.overhead.clear();
        pod
    });
    let Ok(containers) = containers else { return };
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
    for (name, together) in containers.requests() {
        if let Some(request) = amount(&own["requests"][&name])
            && together > request
        {
            let why = format!("must be greater than or equal to aggregate container requests of {together}");
            faults.invalid(&path.child("requests").key(&name), request, &why);
        }
    }
    for (name, together) in containers.limits().into_iter().filter(|(name, _)| name.starts_with("hugepages-")) {
        if let Some(limit) = amount(&own["limits"][&name])
            && together > limit
        {
            let why = format!("must be greater than or equal to aggregate container limits of {together}");
            faults.invalid(&path.child("limits").key(&name), limit, &why);
        }
    }
    for (i, container) in items(spec, "containers").iter().enumerate() {
        for (name, value) in entries(&container["resources"]["limits"]) {
            if let (Some(limit), Some(pod)) = (amount(value), amount(&own["limits"][name]))
                && limit > pod
            {
                let at = path.child("containers").index(i).key(name).child("limits");
                faults.invalid(&at, limit, &format!("must be less than or equal to pod limits of {pod}"));
            }
        }
    }
}

/// What the runtime itself costs has the rules of a container's limits.
pub(in crate::registry::kinds) fn overhead(spec: &Value, path: &Path, faults: &mut Faults) {
    if has(spec, "overhead") {
        let limits = json!({"limits": spec["overhead"]});
        resources::validate(spec, &limits, Of::Container, path, faults);
    }
}
