//! CertificateSigningRequest: somebody asks a signer for a certificate; somebody else approves or denies it; the signer puts
//! the certificate into the status.

use std::collections::HashSet;

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::{Map, Value, json};

use super::content::{bytes, check_certificates, check_request};
use crate::registry::User;
use crate::registry::kinds::strategy::{Habits, Part, Reset, Strategy, keep};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{items, items_mut, text as txt};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, NONE, age, column, duration, text};
use crate::registry::kinds::vocabulary::{difference, names};
use crate::registry::table::{Cell, Column};

pub(super) struct CertificateSigningRequestStrategy;

/// The name of the signer of requests from before signers had names: not for new ones.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";
/// A certificate is good for ten minutes at least.
const EXPIRATION_SECS_MIN: i64 = 600;
const DOMAIN_MAX: usize = 253;
const SIGNER_MAX: usize = DOMAIN_MAX + DOMAIN_MAX + 63 + 2;

/// What a certificate can be for, in order.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

const COLUMNS: &[Column] = &[
    NAME,
    AGE,
    column(
        "SignerName",
        "string",
        "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it will \
         be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \
         \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is assigned\n    \
         \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\n\
         Distribution of trust for signers happens out of band. You can select on this field using `spec.signerName`.",
        0,
    ),
    column("Requestor", "string", "Base64-encoded PKCS#10 CSR data", 0),
    column(
        "RequestedDuration",
        "string",
        "expirationSeconds is the requested duration of validity of the issued certificate. The certificate signer may \
         issue a certificate with a different validity duration so a client must check the delta between the notBefore and \
         and notAfter fields in the issued certificate to determine the actual duration.\n\nThe v1.22+ in-tree \
         implementations of the well-known Kubernetes signers will honor this field as long as the requested duration is \
         not greater than the maximum duration they will honor per the --cluster-signing-duration CLI flag to the \
         Kubernetes controller manager.\n\nCertificate signers may not honor this field for various reasons:\n\n  1. Old \
         signer that is unaware of the field (such as the in-tree\n     implementations prior to v1.22)\n  2. Signer whose \
         configured maximum is shorter than the requested duration\n  3. Signer whose configured minimum is longer than \
         the requested duration\n\nThe minimum valid value for expirationSeconds is 600, i.e. 10 minutes.",
        0,
    ),
    column("Condition", "string", "Conditions applied to the request, such as approval or denial.", 0),
];

impl Strategy for CertificateSigningRequestStrategy {
    fn schema(&self) -> &'static str {
        "certificates/v1.CertificateSigningRequest"
    }

    fn name_requester(&self, object: &mut Object, user: &User) {
        let spec = object.at_mut(&["spec"]);
        let Some(spec) = spec.as_object_mut() else { return };
        let mut put = |key: &str, value: Value, is_empty: bool| match is_empty {
            true => drop(spec.remove(key)),
            false => drop(spec.insert(key.to_owned(), value)),
        };
        put("username", user.name.as_str().into(), user.name.is_empty());
        put("uid", user.uid.as_str().into(), user.uid.is_empty());
        put("groups", json!(user.groups), user.groups.is_empty());
        let extra: Map<String, Value> = user.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
        put("extra", extra.clone().into(), extra.is_empty());
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".to_owned(), json!({}));
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        keep(new, old, &["spec"]);
        match part {
            Part::Status => [APPROVED, DENIED].iter().for_each(|kind| preserve(new, old, kind)),
            Part::Approval => {
                let conditions = new.at(&["status", "conditions"]).cloned();
                keep(new, old, &["status"]);
                match conditions {
                    Some(conditions) => new.set(&["status", "conditions"], conditions),
                    None => drop(new.remove(&["status", "conditions"])),
                }
            }
            _ => keep(new, old, &["status"]),
        }
    }

    fn mark_time(&self, part: Part, new: &mut Object, old: &Object, now: &str) {
        if !matches!(part, Part::Status | Part::Approval) {
            return;
        }
        let before = old.at(&["status"]).unwrap_or(&Value::Null);
        for condition in items_mut(new.at_mut(&["status"]), "conditions") {
            if txt(condition, "lastUpdateTime").is_empty() {
                condition["lastUpdateTime"] = now.into();
            }
            if txt(condition, "lastTransitionTime").is_empty() {
                let same = |own: &&Value| own["type"] == condition["type"] && own["status"] == condition["status"];
                let mut earlier =
                    items(before, "conditions").iter().filter(same).map(|own| txt(own, "lastTransitionTime"));
                condition["lastTransitionTime"] = earlier.find(|time| !time.is_empty()).unwrap_or(now).into();
            }
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        validate(object, None, faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        validate(new, Some(old), faults);
        let path = Path::new("status.conditions");
        for kind in [APPROVED, DENIED, FAILED] {
            if of_type(new, kind).len() < of_type(old, kind).len() {
                faults.forbidden(&path, &format!("updates may not remove a condition of type {}", quote(&kind)));
            }
        }
        if part != Part::Approval {
            for kind in [APPROVED, DENIED] {
                let (is, was) = (of_type(new, kind), of_type(old, kind));
                if is.len() > was.len() {
                    faults.forbidden(&path, &format!("updates may not add a condition of type {}", quote(&kind)));
                } else if is.len() == was.len() && is != was {
                    let difference = difference::unified(&json!(was), &json!(is));
                    faults.forbidden(
                        &path,
                        &format!(
                            "updates may not modify a condition of type {kind}\n{difference}",
                            kind = quote(&kind)
                        ),
                    );
                }
            }
        }
        let (is, was) = (new.text(&["status", "certificate"]), old.text(&["status", "certificate"]));
        let path = Path::new("status.certificate");
        if is == was {
            return;
        }
        if part != Part::Status {
            faults.forbidden(&path, "updates may not set certificate content");
        } else if !was.is_empty() {
            faults.forbidden(&path, "updates may not modify existing certificate content");
        }
    }

    fn reset_fields(&self, part: Part) -> Reset {
        match part {
            Part::Status => Reset::These(&[&["spec"], &["status", "conditions"]]),
            Part::Approval => Reset::These(&[&["spec"], &["status", "certificate"]]),
            _ => Reset::These(&[&["spec"], &["status"]]),
        }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, ..Habits::USUAL }
    }

    fn name_faults(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name)
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let signer = object.text(&["spec", "signerName"]);
        let asked = object.int(&["spec", "expirationSeconds"]);
        vec![
            text(object.name()),
            age(object, now),
            text(if signer.is_empty() { NONE } else { signer }),
            text(object.text(&["spec", "username"])),
            text(asked.map_or_else(|| NONE.to_owned(), duration)),
            text(shown(object)),
        ]
    }
}

/// `Pending`, `Approved,Issued`.
fn shown(object: &Object) -> String {
    let has = |kind: &str| !of_type(object, kind).is_empty();
    let mut shown = if has(DENIED) {
        DENIED
    } else if has(APPROVED) {
        APPROVED
    } else {
        "Pending"
    }
    .to_owned();
    if has(FAILED) {
        shown.push_str(",Failed");
    }
    if !object.text(&["status", "certificate"]).is_empty() {
        shown.push_str(",Issued");
    }
    shown
}

fn conditions(object: &Object) -> &[Value] {
    object.at(&["status", "conditions"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn of_type<'a>(object: &'a Object, kind: &str) -> Vec<&'a Value> {
    conditions(object).iter().filter(|own| txt(own, "type") == kind).collect()
}

/// Conditions of this type are as they were, if there are as many; else the rules will tell.
fn preserve(new: &mut Object, old: &Object, kind: &str) {
    let before: Vec<Value> = of_type(old, kind).into_iter().cloned().collect();
    if of_type(new, kind).len() != before.len() {
        return;
    }
    let own = items_mut(new.at_mut(&["status"]), "conditions").iter_mut().filter(|own| txt(own, "type") == kind);
    own.zip(before).for_each(|(own, before)| *own = before);
}

/// Every fault of a request; what was there before may stay.
fn validate(object: &Object, old: Option<&Object>, faults: &mut Faults) {
    let path = Path::new("spec");
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let before = old.and_then(|old| old.at(&["spec"])).unwrap_or(&Value::Null);
    if let Err(why) = check_request(&bytes(txt(spec, "request"))) {
        faults.invalid(&path.child("request"), txt(spec, "request"), &why);
    }
    usages(spec, before, &path.child("usages"), faults);
    let signer = txt(spec, "signerName");
    if signer == LEGACY_SIGNER && txt(before, "signerName") != LEGACY_SIGNER {
        let why = "the legacy signerName is not allowed via this API version";
        faults.invalid(&path.child("signerName"), signer, why);
    } else {
        signer_name(signer, &path.child("signerName"), faults);
    }
    if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|seconds| *seconds < EXPIRATION_SECS_MIN) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        faults.invalid(&path.child("expirationSeconds"), seconds, why);
    }
    validate_conditions(object, old, &Path::new("status.conditions"), faults);
    let certificate = object.text(&["status", "certificate"]);
    let was = old.map(|old| old.text(&["status", "certificate"]));
    let is_tolerated = was.is_some_and(|was| was == certificate || check_certificates(&bytes(was)).is_err());
    if !is_tolerated && let Err(why) = check_certificates(&bytes(certificate)) {
        faults.invalid(&Path::new("status.certificate"), "<certificate data>", &why);
    }
}

fn usages(spec: &Value, before: &Value, path: &Path, faults: &mut Faults) {
    let words = |spec: &Value| -> Vec<String> {
        items(spec, "usages").iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let is_known = |usage: &String| USAGES.contains(&usage.as_str());
    let repeats = |all: &[String]| all.iter().collect::<HashSet<_>>().len() != all.len();
    let (own, was) = (words(spec), words(before));
    if own.is_empty() {
        faults.required(path, "");
    }
    if was.iter().all(is_known) {
        for (i, usage) in own.iter().enumerate().filter(|(_, usage)| !is_known(usage)) {
            faults.not_supported(&path.index(i), usage.as_str(), &USAGES);
        }
    }
    if !repeats(&was) {
        let mut seen = HashSet::new();
        for (i, usage) in own.iter().enumerate() {
            if !seen.insert(usage) {
                faults.duplicate(&path.index(i), usage.as_str());
            }
        }
    }
}

/// `example.com/signer-name` (upstream's `ValidateSignerName`).
fn signer_name(signer: &str, path: &Path, faults: &mut Faults) {
    if signer.is_empty() {
        faults.required(path, "");
        return;
    }
    let [domain, name] = signer.split('/').collect::<Vec<_>>()[..] else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        faults.invalid(path, signer, why);
        return;
    };
    if domain.len() > DOMAIN_MAX {
        faults.too_long(path, DOMAIN_MAX);
    }
    let labels = |text: &str, rule: fn(&str, bool) -> Vec<String>, faults: &mut Faults| {
        for label in text.split('.') {
            let wrong = rule(label, false);
            for why in &wrong {
                faults.invalid(path, text, &format!("validating label {label}: {why}", label = quote(&label)));
            }
            if !wrong.is_empty() {
                break;
            }
        }
    };
    labels(domain, names::label, faults);
    if !domain.contains('.') {
        faults.invalid(path, domain, "should be a domain with at least two segments separated by dots");
    }
    labels(name, names::subdomain, faults);
    if signer.len() > SIGNER_MAX {
        faults.too_long(path, SIGNER_MAX);
    }
}

fn validate_conditions(object: &Object, old: Option<&Object>, path: &Path, faults: &mut Faults) {
    let before = old.map_or(&[][..], conditions);
    let had = |kind: &str| before.iter().any(|own| txt(own, "type") == kind);
    let may_be_both = had(APPROVED) && had(DENIED);
    let may_have_no_type = had("");
    let types: HashSet<&str> = before.iter().map(|own| txt(own, "type")).collect();
    let may_repeat = types.len() != before.len();
    let mut seen: HashSet<&str> = HashSet::new();
    for (i, condition) in conditions(object).iter().enumerate() {
        let (kind, status, at) = (txt(condition, "type"), txt(condition, "status"), path.index(i));
        if kind.is_empty() && !may_have_no_type {
            faults.required(&at.child("type"), "");
        }
        let allowed: &[&str] =
            if [APPROVED, DENIED, FAILED].contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        if status.is_empty() {
            faults.required(&at.child("status"), "");
        } else if !allowed.contains(&status) {
            faults.not_supported(&at.child("status"), status, allowed);
        }
        let other = match kind {
            APPROVED => DENIED,
            DENIED => APPROVED,
            _ => "\0",
        };
        if !may_be_both && seen.contains(other) {
            faults.invalid(path, kind, "Approved and Denied conditions are mutually exclusive");
        }
        if !seen.insert(kind) && !may_repeat {
            faults.duplicate(&at.child("type"), kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::tests::{certificate, request};
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    const RULES: CertificateSigningRequestStrategy = CertificateSigningRequestStrategy;

    fn object(status: &Value) -> Object {
        let request = STANDARD.encode(request("jane", "devs"));
        Object::from_value(json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "x", "uid": "u"},
            "spec": {"request": request, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
                "expirationSeconds": 3600},
            "status": status,
        }))
        .expect("a map")
    }

    fn with(old: &Object, status: Value) -> Object {
        let mut new = old.clone();
        new.set(&["status"], status);
        new
    }

    fn told(part: Part, new: &Object, old: &Object) -> Vec<String> {
        let mut new = new.clone();
        RULES.prepare_update(part, &mut new, old);
        RULES.mark_time(part, &mut new, old, "now");
        let mut faults = Faults::new();
        RULES.validate_update(part, &new, old, &mut faults);
        faults.told()
    }

    #[test]
    fn who_asks_is_written_down_whatever_is_sent() {
        let mut own = object(&json!({"conditions": [{"type": "Approved", "status": "True"}]}));
        own.set(&["spec", "username"], "root");
        own.set(&["spec", "uid"], "1");
        let user = User { name: "jane".into(), groups: vec!["devs".into()], ..User::default() };
        RULES.name_requester(&mut own, &user);
        RULES.prepare_create(&mut own).expect("prepared");
        assert_eq!(own.text(&["spec", "username"]), "jane");
        assert_eq!(own.at(&["spec", "groups"]), Some(&json!(["devs"])));
        assert_eq!((own.at(&["spec", "uid"]), own.at(&["status"])), (None, Some(&json!({}))));
        let mut faults = Faults::new();
        RULES.validate_create(&own, &mut faults);
        assert!(faults.is_empty(), "{:?}", faults.into_causes());
        let cells: Vec<String> = RULES.cells(&own, 0).iter().map(ToString::to_string).collect();
        assert_eq!(&cells[2..], ["kubernetes.io/kube-apiserver-client", "jane", "60m", "Pending"]);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let mut wrong = object(&json!({}));
        wrong.set(
            &["spec"],
            json!({"request": "eA==", "signerName": "nosuch", "expirationSeconds": 5,
            "usages": ["client auth", "client auth", "other"]}),
        );
        let mut faults = Faults::new();
        RULES.validate_create(&wrong, &mut faults);
        let told: Vec<_> = faults.told();
        assert_eq!(told[0], "spec.request: Invalid value: \"eA==\": PEM block type must be CERTIFICATE REQUEST");
        assert!(
            told[1].starts_with("spec.usages[2]: Unsupported value: \"other\": supported values: \"any\","),
            "{told:?}"
        );
        assert_eq!(
            told[2..],
            [
                "spec.usages[1]: Duplicate value: \"client auth\"",
                "spec.signerName: Invalid value: \"nosuch\": must be a fully qualified domain and path of the form \
                 'example.com/signer-name'",
                "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)",
            ]
        );
    }

    #[test]
    fn approval_alone_approves_and_the_status_alone_issues() {
        let old = object(&json!({}));
        let approved = with(&old, json!({"conditions": [{"type": "Approved", "status": "True"}]}));
        assert_eq!(told(Part::Approval, &approved, &old), [""; 0]);
        assert_eq!(
            told(Part::Status, &approved, &old),
            ["status.conditions: Forbidden: updates may not add a condition of type \"Approved\""]
        );
        let both = with(
            &old,
            json!({"conditions": [
            {"type": "Approved", "status": "True"}, {"type": "Denied", "status": "False"}]}),
        );
        assert_eq!(
            told(Part::Approval, &both, &old),
            [
                "status.conditions[1].status: Unsupported value: \"False\": supported values: \"True\"",
                "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
            ]
        );
        let yes =
            json!([{"type": "Approved", "status": "True", "lastUpdateTime": "then", "lastTransitionTime": "then"}]);
        let approved = with(&old, json!({"conditions": yes}));
        let pem = STANDARD.encode(certificate());
        let issued = with(&approved, json!({"conditions": yes, "certificate": pem}));
        assert_eq!(told(Part::Status, &issued, &approved), [""; 0]);
        let other = with(&issued, json!({"conditions": yes, "certificate": STANDARD.encode(certificate())}));
        assert_eq!(
            told(Part::Status, &other, &issued),
            ["status.certificate: Forbidden: updates may not modify existing certificate content"]
        );
        assert_eq!(
            told(Part::Approval, &with(&approved, json!({})), &approved),
            ["status.conditions: Forbidden: updates may not remove a condition of type \"Approved\""]
        );
        assert_eq!(shown(&issued), "Approved,Issued");
    }

    #[test]
    fn a_condition_keeps_the_time_at_which_it_came_about() {
        let old = object(&json!({"conditions": [{"type": "Other", "status": "True", "lastTransitionTime": "then"}]}));
        let mut new = with(
            &old,
            json!({"conditions": [
            {"type": "Other", "status": "True"}, {"type": "Approved", "status": "True"}]}),
        );
        RULES.mark_time(Part::Approval, &mut new, &old, "now");
        let times: Vec<&str> = conditions(&new).iter().map(|own| txt(own, "lastTransitionTime")).collect();
        assert_eq!(times, ["then", "now"]);
    }
}
