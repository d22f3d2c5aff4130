//! The rows of the kinds: one for each kind of object that is served, in the order of discovery within a group.

use super::kind::{Kind, cluster, namespaced};

/// Every kind.
pub const KINDS: &[Kind] = &[
    namespaced("", "v1", "Binding", "binding", "bindings", "/registry/bindings/").unkept(),
    cluster("", "v1", "ComponentStatus", "componentstatus", "componentstatuses", "").short(&["cs"]).computed(),
    namespaced("", "v1", "ConfigMap", "configmap", "configmaps", "/registry/configmaps/").short(&["cm"]),
    namespaced("", "v1", "Endpoints", "endpoints", "endpoints", "/registry/services/endpoints/").short(&["ep"]),
    namespaced("", "v1", "Event", "event", "events", "/registry/events/").short(&["ev"]),
    namespaced("", "v1", "LimitRange", "limitrange", "limitranges", "/registry/limitranges/").short(&["limits"]),
    cluster("", "v1", "Namespace", "namespace", "namespaces", "/registry/namespaces/")
        .short(&["ns"])
        .with(&["finalize", "status"])
        .deleted_one_by_one(),
    cluster("", "v1", "Node", "node", "nodes", "/registry/minions/").short(&["no"]).with(&["proxy", "status"]),
    namespaced(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaim",
        "persistentvolumeclaims",
        "/registry/persistentvolumeclaims/",
    )
    .short(&["pvc"])
    .with(&["status"]),
    cluster("", "v1", "PersistentVolume", "persistentvolume", "persistentvolumes", "/registry/persistentvolumes/")
        .short(&["pv"])
        .with(&["status"]),
    namespaced("", "v1", "Pod", "pod", "pods", "/registry/pods/")
        .short(&["po"])
        .with(&[
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "proxy",
            "resize",
            "status",
        ])
        .categories(&["all"]),
    namespaced("", "v1", "PodTemplate", "podtemplate", "podtemplates", "/registry/podtemplates/"),
    namespaced(
        "",
        "v1",
        "ReplicationController",
        "replicationcontroller",
        "replicationcontrollers",
        "/registry/controllers/",
    )
    .short(&["rc"])
    .with(&["scale", "status"])
    .categories(&["all"]),
    namespaced("", "v1", "ResourceQuota", "resourcequota", "resourcequotas", "/registry/resourcequotas/")
        .short(&["quota"])
        .with(&["status"]),
    namespaced("", "v1", "Secret", "secret", "secrets", "/registry/secrets/"),
    namespaced("", "v1", "ServiceAccount", "serviceaccount", "serviceaccounts", "/registry/serviceaccounts/")
        .short(&["sa"])
        .with(&["token"]),
    namespaced("", "v1", "Service", "service", "services", "/registry/services/specs/")
        .short(&["svc"])
        .with(&["proxy", "status"])
        .categories(&["all"]),
    cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinition",
        "customresourcedefinitions",
        "/registry/apiextensions.k8s.io/customresourcedefinitions/",
    )
    .short(&["crd", "crds"])
    .with(&["status"])
    .categories(&["api-extensions"]),
    namespaced(
        "apps",
        "v1",
        "ControllerRevision",
        "controllerrevision",
        "controllerrevisions",
        "/registry/controllerrevisions/",
    ),
    namespaced("apps", "v1", "DaemonSet", "daemonset", "daemonsets", "/registry/daemonsets/")
        .short(&["ds"])
        .with(&["status"])
        .categories(&["all"]),
    namespaced("apps", "v1", "Deployment", "deployment", "deployments", "/registry/deployments/")
        .short(&["deploy"])
        .with(&["scale", "status"])
        .categories(&["all"]),
    namespaced("apps", "v1", "ReplicaSet", "replicaset", "replicasets", "/registry/replicasets/")
        .short(&["rs"])
        .with(&["scale", "status"])
        .categories(&["all"]),
    namespaced("apps", "v1", "StatefulSet", "statefulset", "statefulsets", "/registry/statefulsets/")
        .short(&["sts"])
        .with(&["scale", "status"])
        .categories(&["all"]),
    namespaced(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscaler",
        "horizontalpodautoscalers",
        "/registry/horizontalpodautoscalers/",
    )
    .short(&["hpa"])
    .with(&["status"])
    .categories(&["all"]),
    namespaced(
        "autoscaling",
        "v1",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscaler",
        "horizontalpodautoscalers",
        "/registry/horizontalpodautoscalers/",
    )
    .short(&["hpa"])
    .with(&["status"])
    .categories(&["all"])
    .view(),
    namespaced("batch", "v1", "CronJob", "cronjob", "cronjobs", "/registry/cronjobs/")
        .short(&["cj"])
        .with(&["status"])
        .categories(&["all"]),
    namespaced("batch", "v1", "Job", "job", "jobs", "/registry/jobs/").with(&["status"]).categories(&["all"]),
    cluster(
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequest",
        "certificatesigningrequests",
        "/registry/certificatesigningrequests/",
    )
    .short(&["csr"])
    .with(&["approval", "status"]),
    namespaced("coordination.k8s.io", "v1", "Lease", "lease", "leases", "/registry/leases/"),
    namespaced(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslice",
        "endpointslices",
        "/registry/endpointslices/",
    ),
    namespaced("events.k8s.io", "v1", "Event", "event", "events", "/registry/events/").short(&["ev"]).view(),
    cluster("networking.k8s.io", "v1", "IngressClass", "ingressclass", "ingressclasses", "/registry/ingressclass/"),
    namespaced("networking.k8s.io", "v1", "Ingress", "ingress", "ingresses", "/registry/ingress/")
        .short(&["ing"])
        .with(&["status"]),
    cluster("networking.k8s.io", "v1", "IPAddress", "ipaddress", "ipaddresses", "/registry/ipaddresses/")
        .short(&["ip"]),
    namespaced(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicy",
        "networkpolicies",
        "/registry/networkpolicies/",
    )
    .short(&["netpol"]),
    cluster("networking.k8s.io", "v1", "ServiceCIDR", "servicecidr", "servicecidrs", "/registry/servicecidrs/")
        .with(&["status"]),
    cluster("node.k8s.io", "v1", "RuntimeClass", "runtimeclass", "runtimeclasses", "/registry/runtimeclasses/"),
    namespaced(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudget",
        "poddisruptionbudgets",
        "/registry/poddisruptionbudgets/",
    )
    .short(&["pdb"])
    .with(&["status"]),
    cluster(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebinding",
        "clusterrolebindings",
        "/registry/clusterrolebindings/",
    ),
    cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterrole", "clusterroles", "/registry/clusterroles/"),
    namespaced(
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        "rolebinding",
        "rolebindings",
        "/registry/rolebindings/",
    ),
    namespaced("rbac.authorization.k8s.io", "v1", "Role", "role", "roles", "/registry/roles/"),
    cluster("resource.k8s.io", "v1", "DeviceClass", "deviceclass", "deviceclasses", "/registry/deviceclasses/"),
    namespaced(
        "resource.k8s.io",
        "v1",
        "ResourceClaim",
        "resourceclaim",
        "resourceclaims",
        "/registry/resourceclaims/",
    )
    .with(&["status"]),
    namespaced(
        "resource.k8s.io",
        "v1",
        "ResourceClaimTemplate",
        "resourceclaimtemplate",
        "resourceclaimtemplates",
        "/registry/resourceclaimtemplates/",
    ),
    cluster("resource.k8s.io", "v1", "ResourceSlice", "resourceslice", "resourceslices", "/registry/resourceslices/"),
    cluster(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclass",
        "priorityclasses",
        "/registry/priorityclasses/",
    )
    .short(&["pc"]),
    cluster("storage.k8s.io", "v1", "CSIDriver", "csidriver", "csidrivers", "/registry/csidrivers/"),
    cluster("storage.k8s.io", "v1", "CSINode", "csinode", "csinodes", "/registry/csinodes/"),
    namespaced(
        "storage.k8s.io",
        "v1",
        "CSIStorageCapacity",
        "csistoragecapacity",
        "csistoragecapacities",
        "/registry/csistoragecapacities/",
    ),
    cluster("storage.k8s.io", "v1", "StorageClass", "storageclass", "storageclasses", "/registry/storageclasses/")
        .short(&["sc"]),
    cluster(
        "storage.k8s.io",
        "v1",
        "VolumeAttachment",
        "volumeattachment",
        "volumeattachments",
        "/registry/volumeattachments/",
    )
    .with(&["status"]),
    cluster(
        "storage.k8s.io",
        "v1",
        "VolumeAttributesClass",
        "volumeattributesclass",
        "volumeattributesclasses",
        "/registry/volumeattributesclasses/",
    )
    .short(&["vac"]),
    cluster("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreview", "selfsubjectreviews", "").unkept(),
    cluster("authentication.k8s.io", "v1", "TokenReview", "tokenreview", "tokenreviews", "").unkept(),
    namespaced(
        "authorization.k8s.io",
        "v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreview",
        "localsubjectaccessreviews",
        "",
    )
    .unkept(),
    cluster(
        "authorization.k8s.io",
        "v1",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreview",
        "selfsubjectaccessreviews",
        "",
    )
    .unkept(),
    cluster(
        "authorization.k8s.io",
        "v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreview",
        "selfsubjectrulesreviews",
        "",
    )
    .unkept(),
    cluster("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreview", "subjectaccessreviews", "")
        .unkept(),
];
