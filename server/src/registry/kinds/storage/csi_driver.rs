//! CSIDriver: how volumes of a storage driver are handled.

use std::collections::HashSet;

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{default, has, items, text as field};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, NONE, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct CSIDriverStrategy;

/// How long a token lives at least and at most, in seconds.
const TOKEN_SECONDS: [i64; 2] = [600, 1 << 32];
const FS_GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: [&str; 2] = ["Persistent", "Ephemeral"];
const TOKENS_IN_SECRETS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true \
    to prevent possible logging of tokens in volume attributes";

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "AttachRequired",
        "boolean",
        "attachRequired indicates this CSI volume driver requires an attach operation (because it implements the CSI ControllerPublishVolume() method), and that the Kubernetes attach detach controller should call the attach volume interface which checks the volumeattachment status and waits until the volume is attached before proceeding to mounting. The CSI external-attacher coordinates with CSI volume driver and updates the volumeattachment status when the attach operation is complete. If the value is specified to false, the attach operation will be skipped. Otherwise the attach operation will be called.\n\nThis field is immutable.",
        0,
    ),
    column(
        "PodInfoOnMount",
        "boolean",
        "podInfoOnMount indicates this CSI volume driver requires additional pod information (like podName, podUID, etc.) during mount operations, if set to true. If set to false, pod information will not be passed on mount. Default is false.\n\nThe CSI driver specifies podInfoOnMount as part of driver deployment. If true, Kubelet will pass pod information as VolumeContext in the CSI NodePublishVolume() calls. The CSI driver is responsible for parsing and validating the information passed in as VolumeContext.\n\nThe following VolumeContext will be passed if podInfoOnMount is set to true. This list might grow, but the prefix will be used. \"csi.storage.k8s.io/pod.name\": pod.Name \"csi.storage.k8s.io/pod.namespace\": pod.Namespace \"csi.storage.k8s.io/pod.uid\": string(pod.UID) \"csi.storage.k8s.io/ephemeral\": \"true\" if the volume is an ephemeral inline volume\n                                defined by a CSIVolumeSource, otherwise \"false\"\n\n\"csi.storage.k8s.io/ephemeral\" is a new feature in Kubernetes 1.16. It is only required for drivers which support both the \"Persistent\" and \"Ephemeral\" VolumeLifecycleMode. Other drivers can leave pod info disabled and/or ignore this field. As Kubernetes 1.15 doesn't support this field, drivers can only support one mode when deployed on such a cluster and the deployment determines which mode that is, for example via a command line parameter of the driver.\n\nThis field was immutable in Kubernetes < 1.29 and now is mutable.",
        0,
    ),
    column(
        "StorageCapacity",
        "boolean",
        "storageCapacity indicates that the CSI volume driver wants pod scheduling to consider the storage capacity that the driver deployment will report by creating CSIStorageCapacity objects with capacity information, if set to true.\n\nThe check can be enabled immediately when deploying a driver. In that case, provisioning new volumes with late binding will pause until the driver deployment has published some suitable CSIStorageCapacity object.\n\nAlternatively, the driver can be deployed with the field unset or false and it can be flipped later when storage capacity information has been published.\n\nThis field was immutable in Kubernetes <= 1.22 and now is mutable.",
        0,
    ),
    column(
        "TokenRequests",
        "string",
        "tokenRequests indicates the CSI driver needs pods' service account tokens it is mounting volume for to do necessary authentication. Kubelet will pass the tokens in VolumeContext in the CSI NodePublishVolume calls. The CSI driver should parse and validate the following VolumeContext: \"csi.storage.k8s.io/serviceAccount.tokens\": {\n  \"<audience>\": {\n    \"token\": <token>,\n    \"expirationTimestamp\": <expiration timestamp in RFC3339>,\n  },\n  ...\n}\n\nNote: Audience in each TokenRequest should be different and at most one token is empty string. To receive a new token after expiry, RequiresRepublish can be used to trigger NodePublishVolume periodically.",
        0,
    ),
    column(
        "RequiresRepublish",
        "boolean",
        "requiresRepublish indicates the CSI driver wants `NodePublishVolume` being periodically called to reflect any possible change in the mounted volume. This field defaults to false.\n\nNote: After a successful initial NodePublishVolume call, subsequent calls to NodePublishVolume should only update the contents of the volume. New mount points will not be seen by a running container.",
        0,
    ),
    column(
        "Modes",
        "string",
        "volumeLifecycleModes defines what kind of volumes this CSI volume driver supports. The default if the list is empty is \"Persistent\", which is the usage defined by the CSI specification and implemented in Kubernetes via the usual PV/PVC mechanism.\n\nThe other mode is \"Ephemeral\". In this mode, volumes are defined inline inside the pod spec with CSIVolumeSource and their lifecycle is tied to the lifecycle of that pod. A driver has to be aware of this because it is only going to get a NodePublishVolume call for such a volume.\n\nFor more information about implementing this mode, see https://kubernetes-csi.github.io/docs/ephemeral-local-volumes.html A driver can support one or more of these modes and more modes may be added in the future.\n\nThis field is beta. This field is immutable.",
        0,
    ),
    AGE,
];

impl Strategy for CSIDriverStrategy {
    fn schema(&self) -> &'static str {
        "storage/v1.CSIDriver"
    }

    fn default(&self, object: &mut Object) {
        let spec = object.at_mut(&["spec"]);
        if !spec.is_object() {
            *spec = json!({});
        }
        default(spec, "attachRequired", true);
        for key in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            default(spec, key, false);
        }
        default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if items(spec, "volumeLifecycleModes").is_empty() {
            spec["volumeLifecycleModes"] = json!(["Persistent"]);
        }
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        without_gated(object);
        Ok(())
    }

    fn prepare_update(&self, _part: Part, new: &mut Object, old: &Object) {
        without_gated(new);
        if new.0.get("spec") != old.0.get("spec") {
            new.set(&["metadata", "generation"], old.generation() + 1);
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        if let Some(policy) = spec["fsGroupPolicy"].as_str().filter(|policy| !FS_GROUP_POLICIES.contains(policy)) {
            faults.not_supported(&path.child("fsGroupPolicy"), policy, &FS_GROUP_POLICIES);
        }
        token_requests(items(spec, "tokenRequests"), &path.child("tokenRequests"), faults);
        let at = path.child("volumeLifecycleModes");
        for mode in items(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str) {
            if !LIFECYCLE_MODES.contains(&mode) {
                faults.not_supported(&at, mode, &LIFECYCLE_MODES);
            }
        }
        if let Some(period) = spec["nodeAllocatableUpdatePeriodSeconds"].as_i64().filter(|period| *period < 10) {
            let at = path.child("nodeAllocatableUpdatePeriodSeconds");
            faults.invalid(&at, period, "must be greater than or equal to 10 seconds");
        }
        if has(spec, "serviceAccountTokenInSecrets") && items(spec, "tokenRequests").is_empty() {
            let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            let shown = &spec["serviceAccountTokenInSecrets"];
            faults.invalid(&path.child("serviceAccountTokenInSecrets"), shown, why);
        }
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
        // A slip of upstream's names the field otherwise than it is.
        for (key, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
            let (is, was) = (new.at(&["spec", key]), old.at(&["spec", key]));
            if is != was {
                let at = Path::new("spec").child(shown);
                faults.invalid(&at, is.unwrap_or(&Value::Null), "field is immutable");
            }
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let bare = !items(spec, "tokenRequests").is_empty() && !has(spec, "serviceAccountTokenInSecrets");
        if bare { vec![TOKENS_IN_SECRETS.to_owned()] } else { Vec::new() }
    }

    fn update_warnings(&self, _part: Part, new: &Object, old: &Object) -> Vec<String> {
        const REQUESTS: [&str; 2] = ["spec", "tokenRequests"];
        if new.at(&REQUESTS) == old.at(&REQUESTS) { Vec::new() } else { self.warnings(new) }
    }

    // The generation counts changes only; what is born has none (Kubernetes 1.36).
    fn habits(&self) -> Habits {
        Habits {
            has_generation: false,
            allows_unconditional_update: false,
            tells_what_it_deleted: true,
            ..Habits::USUAL
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let flag = |key: &str, otherwise: bool| Cell::Flag(spec[key].as_bool().unwrap_or(otherwise));
        let tokens = match spec["tokenRequests"].as_array() {
            None => "<unset>".to_owned(),
            Some(list) => list.iter().map(|token| field(token, "audience")).collect::<Vec<_>>().join(","),
        };
        let modes: Vec<&str> = items(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
        vec![
            text(object.name()),
            flag("attachRequired", true),
            flag("podInfoOnMount", false),
            flag("storageCapacity", false),
            text(tokens),
            flag("requiresRepublish", false),
            text(if modes.is_empty() { NONE.to_owned() } else { modes.join(",") }),
            age(object, now),
        ]
    }
}

/// Drops what belongs to a gate that is off (Kubernetes 1.36).
fn without_gated(object: &mut Object) {
    object.remove(&["spec", "preventPodSchedulingIfMissing"]);
}

fn token_requests(requests: &[Value], path: &Path, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (i, request) in requests.iter().enumerate() {
        let (path, audience) = (path.index(i), field(request, "audience"));
        if !seen.insert(audience) {
            faults.duplicate(&path.child("audience"), audience);
            continue;
        }
        let Some(seconds) = request["expirationSeconds"].as_i64() else { continue };
        let [shortest, longest] = TOKEN_SECONDS;
        let at = path.child("expirationSeconds");
        if seconds < shortest {
            faults.invalid(&at, seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds > longest {
            faults.invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
}
