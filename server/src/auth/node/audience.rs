//! For whom a kubelet may ask a token: for an audience that its pod asks for, itself or by the driver of one of its
//! volumes, or that a role gives the kubelet (upstream's `ServiceAccountNodeAudienceRestriction`, Kubernetes 1.36).

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::Value;

use super::related::{kind, one};
use crate::registry::{Asked, Attributes, Registry, ResourceAttributes, StoredObject, Target, User, projections};

const VERB: &str = "request-serviceaccounts-token-audience";

/// The drivers that stand in for volumes of the time before drivers.
const DRIVERS: [(&str, &str); 7] = [
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
    ("portworxVolume", "pxd.portworx.com"),
];

/// Judges the audiences of a request for a token, as the kubelet sent them.
pub(super) async fn admit(
    registry: &Registry,
    user: &User,
    target: &Target,
    request: &Object,
    pod: &Object,
) -> Result<(), String> {
    let audiences = request.at(&["spec", "audiences"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let audience = match audiences {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return Err("node may only request 0 or 1 audiences".to_owned()),
    };
    let asked_for = is_asked_for(registry, pod, audience)
        .await
        .map_err(|why| format!("error validating audience {audience}: {why}", audience = quote(&audience)))?;
    if asked_for {
        return Ok(());
    }
    let asked = ResourceAttributes {
        version: "v1".to_owned(),
        resource: audience.to_owned(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        ..ResourceAttributes::default()
    };
    let attributes = Attributes { verb: VERB.to_owned(), asked: Asked::Resource(asked) };
    let name = &user.name;
    match registry.decide(user, &attributes).await {
        Ok(decision) if decision.allowed => Ok(()),
        Ok(_) => Err(format!(
            "audience {audience} not found in pod spec volume, {name} is not authorized to request tokens for this \
             audience",
            audience = quote(&audience)
        )),
        Err(status) => Err(format!(
            "audience {audience} not found in pod spec volume, error authorizing {name} to request tokens for this \
             audience: {}",
            status.message,
            audience = quote(&audience)
        )),
    }
}

/// Whether a volume of the pod wants a token for this audience. What cannot be looked up counts only if no volume does.
async fn is_asked_for(registry: &Registry, pod: &Object, audience: &str) -> Result<bool, String> {
    let mut faults: Vec<String> = Vec::new();
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_array).into_iter().flatten();
    for volume in volumes {
        if projects_for(volume, audience) {
            return Ok(true);
        }
        let driver = match claim_of(pod, volume) {
            Some(claim) => driver_of_claim(registry, pod.namespace(), &claim).await,
            None => Ok(driver_of(volume)),
        };
        let found = match driver {
            Ok(Some(driver)) => driver_wants(registry, &driver, audience).await,
            Ok(None) => Ok(false),
            Err(why) => Err(why),
        };
        match found {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) if faults.contains(&why) => {}
            Err(why) => faults.push(why),
        }
    }
    match faults.as_slice() {
        [] => Ok(false),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

fn projects_for(volume: &Value, audience: &str) -> bool {
    let tokens =
        projections(volume).filter_map(|part| part.get("serviceAccountToken")).filter(|token| !token.is_null());
    tokens.into_iter().any(|token| token.get("audience").and_then(Value::as_str).unwrap_or_default() == audience)
}

/// The claim behind a volume.
fn claim_of(pod: &Object, volume: &Value) -> Option<String> {
    let has_template = volume
        .get("ephemeral")
        .and_then(|own| own.get("volumeClaimTemplate"))
        .is_some_and(|template| !template.is_null());
    if has_template {
        let own = volume.get("name").and_then(Value::as_str).unwrap_or_default();
        return Some(format!("{}-{own}", pod.name()));
    }
    let claim = volume.get("persistentVolumeClaim").filter(|claim| !claim.is_null())?;
    Some(claim.get("claimName").and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// The driver of a volume in a pod, or of a persistent volume's spec.
fn driver_of(source: &Value) -> Option<String> {
    if let Some(driver) = source.get("csi").and_then(|csi| csi.get("driver")).and_then(Value::as_str) {
        return Some(driver.to_owned()).filter(|driver| !driver.is_empty());
    }
    let stands_in = |(field, _): &&(&str, &str)| source.get(*field).is_some_and(|volume| !volume.is_null());
    DRIVERS.iter().find(stands_in).map(|(_, driver)| (*driver).to_owned())
}

async fn driver_of_claim(registry: &Registry, namespace: &str, name: &str) -> Result<Option<String>, String> {
    let claim = look_up(registry, "v1", "PersistentVolumeClaim", namespace, name).await?;
    let volume = claim.object().text(&["spec", "volumeName"]).to_owned();
    let volume = look_up(registry, "v1", "PersistentVolume", "", &volume).await?;
    Ok(volume.object().at(&["spec"]).and_then(driver_of))
}

async fn driver_wants(registry: &Registry, driver: &str, audience: &str) -> Result<bool, String> {
    let driver = look_up(registry, "storage.k8s.io/v1", "CSIDriver", "", driver).await?;
    let wanted = driver.object().at(&["spec", "tokenRequests"]).and_then(Value::as_array).into_iter().flatten();
    let mut audiences = wanted.map(|token| token.get("audience").and_then(Value::as_str).unwrap_or_default());
    Ok(audiences.any(|own| own == audience))
}

async fn look_up(
    registry: &Registry,
    api_version: &str,
    name_of_kind: &str,
    namespace: &str,
    name: &str,
) -> Result<StoredObject, String> {
    let kind = kind(api_version, name_of_kind);
    let missing = || {
        let group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
        format!("{}{group} {name} not found", name_of_kind.to_lowercase(), name = quote(&name))
    };
    if name.is_empty() {
        return Err(missing());
    }
    one(registry, kind, namespace, name).await.map_err(|status| status.message)?.ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_is_for_the_audience_that_a_projection_names() {
        let volume = |token: Value| json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": token}]}});
        assert!(projects_for(&volume(json!({"audience": "vault", "path": "t"})), "vault"));
        assert!(projects_for(&volume(json!({"path": "t"})), ""), "none named = the server's own");
        assert!(!projects_for(&volume(json!({"path": "t"})), "vault"));
        assert!(!projects_for(&volume(json!({"audience": "vault"})), "") && !projects_for(&json!({"name": "v"}), ""));
    }

    #[test]
    fn a_volume_leads_to_its_driver() {
        let pod = Object::from_value(json!({"metadata": {"name": "p"}})).expect("a map");
        let ephemeral = json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {}}});
        assert_eq!(claim_of(&pod, &ephemeral).as_deref(), Some("p-v"));
        assert_eq!(claim_of(&pod, &json!({"persistentVolumeClaim": {"claimName": "c"}})).as_deref(), Some("c"));
        assert_eq!(claim_of(&pod, &json!({"name": "v", "emptyDir": {}})), None);
        assert_eq!(driver_of(&json!({"csi": {"driver": "d"}})).as_deref(), Some("d"));
        assert_eq!(driver_of(&json!({"azureFile": {"shareName": "s"}})).as_deref(), Some("file.csi.azure.com"));
        assert_eq!(driver_of(&json!({"emptyDir": {}})), None);
    }
}
