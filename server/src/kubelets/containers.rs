//! Which container of a pod is meant (Kubernetes 1.36).

use listwatch_proto::resource::{Object, Status};
use serde_json::Value;

/// The container that a request names, or the only one.
///
/// # Errors
/// `BadRequest` if it is not of this pod, or several could be meant.
pub(super) fn choose(pod: &Object, wanted: &str) -> Result<String, Status> {
    let names = |field: &str| -> Vec<&str> {
        let list = pod.at(&["spec", field]).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|c| c["name"].as_str()).collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    if wanted.is_empty() {
        return match containers.as_slice() {
            [only] => Ok((*only).to_owned()),
            _ => Err(Status::bad_request(ambiguous(pod.name(), &containers, &init))),
        };
    }
    let ephemeral = names("ephemeralContainers");
    if [containers, init, ephemeral].iter().any(|list| list.contains(&wanted)) {
        return Ok(wanted.to_owned());
    }
    Err(Status::bad_request(format!("container {wanted} is not valid for pod {}", pod.name())))
}

fn ambiguous(pod: &str, containers: &[&str], init: &[&str]) -> String {
    let mut text =
        format!("a container name must be specified for pod {pod}, choose one of: [{}]", containers.join(" "));
    if !init.is_empty() {
        text.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_container_is_chosen_as_upstream_does() {
        let pod = |spec: Value| Object::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).expect("a map");
        let one = pod(json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}));
        let two = pod(json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}));
        let said = |pod: &Object, wanted: &str| choose(pod, wanted).map_err(|s| s.message);
        assert_eq!(said(&one, ""), Ok("a".into()));
        assert_eq!(said(&two, "b"), Ok("b".into()));
        assert_eq!(said(&two, "i"), Ok("i".into()));
        assert_eq!(said(&two, "x"), Err("container x is not valid for pod p".into()));
        assert_eq!(
            said(&two, ""),
            Err(
                "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]"
                    .into()
            )
        );
    }
}
