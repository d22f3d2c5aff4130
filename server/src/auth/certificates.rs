//! Who may approve and sign requests for certificates, and which may not even be made (upstream's admission plugins
//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction, Kubernetes 1.36).

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Object, Status};

use crate::registry::{
    AdmissionPlugin, Asked, Attributes, Change, ChangeVerb, MASTERS, Registry, ResourceAttributes, Security, User,
    certificate_organizations,
};

const GROUP: &str = "certificates.k8s.io";
/// The signer of certificates by which this API knows users.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Judges a write; one of another kind passes.
pub(super) async fn admit(
    security: &dyn Security,
    registry: &Registry,
    user: &User,
    change: &Change<'_>,
) -> Result<(), Status> {
    if (change.kind.group, change.kind.kind) != (GROUP, "CertificateSigningRequest") {
        return Ok(());
    }
    let refused = |why: String| {
        let name = change.object().map_or("", Object::name);
        Err(Status::forbidden(change.kind, name, &why))
    };
    let verb = match (change.verb, change.subresource, change.old, change.new) {
        (ChangeVerb::Create, "", _, Some(new)) if registry.runs(AdmissionPlugin::CertificateSubjectRestriction) => {
            return match asks_for_everything(new) {
                Ok(()) => Ok(()),
                Err(why) => refused(why),
            };
        }
        (_, "approval", ..) if registry.runs(AdmissionPlugin::CertificateApproval) => "approve",
        (_, "status", Some(old), Some(new)) if registry.runs(AdmissionPlugin::CertificateSigning) => {
            let part = |object: &Object, key: &str| object.at(&["status", key]).cloned();
            if ["certificate", "conditions"].iter().all(|key| part(old, key) == part(new, key)) {
                return Ok(());
            }
            "sign"
        }
        _ => return Ok(()),
    };
    // By the signer that was asked, whatever the change says.
    let signer = change.old.map_or("", |old| old.text(&["spec", "signerName"]));
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    for name in [signer, &domain] {
        if security.authorize(registry, user, &signers(verb, name)).await.allowed {
            return Ok(());
        }
    }
    refused(format!("user not permitted to {verb} requests with signerName {signer}", signer = quote(&signer)))
}

fn signers(verb: &str, name: &str) -> Attributes {
    let asked = ResourceAttributes {
        group: GROUP.to_owned(),
        version: "*".to_owned(),
        resource: "signers".to_owned(),
        name: name.to_owned(),
        ..ResourceAttributes::default()
    };
    Attributes { verb: verb.to_owned(), asked: Asked::Resource(asked) }
}

/// Nobody gets a certificate of those who may do everything by asking for it.
fn asks_for_everything(request: &Object) -> Result<(), String> {
    if request.text(&["spec", "signerName"]) != CLIENT_SIGNER {
        return Ok(());
    }
    let groups = certificate_organizations(request).map_err(|why| format!("failed to parse CSR: {why}"))?;
    if groups.iter().any(|group| group == MASTERS) {
        return Err(format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::json;

    #[test]
    fn nobody_asks_for_everything() {
        let asks = |organization: &str, signer: &str| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::OrganizationName, organization);
            let key = KeyPair::generate().expect("a key");
            let pem = params.serialize_request(&key).expect("a request").pem().expect("PEM");
            let request = base64::engine::general_purpose::STANDARD.encode(pem);
            let object = Object::from_value(json!({"spec": {"signerName": signer, "request": request}}));
            asks_for_everything(&object.expect("a map"))
        };
        assert_eq!(asks("devs", CLIENT_SIGNER), Ok(()));
        assert_eq!(asks(MASTERS, "example.com/own"), Ok(()));
        assert_eq!(
            asks(MASTERS, CLIENT_SIGNER).expect_err("refused"),
            "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
        );
    }
}
