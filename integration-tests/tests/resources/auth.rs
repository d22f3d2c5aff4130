//! Who is let in, and as whom.

use listwatch_components::client::{Client, ClientConfig, Error};
use listwatch_integration_tests::Server;
use listwatch_proto::resource::Reason;
use listwatch_proto::v1;
use prost::Message;

use crate::door::{Door, admin, config, lease, reference};
use crate::raw;

const GET: &str = "/listwatch.v1.Resources/Get";
const CREATE: &str = "/listwatch.v1.Resources/Create";

fn get_request() -> Vec<u8> {
    let resource = Some(reference("namespaces", "", "default"));
    v1::GetRequest { resource, ..Default::default() }.encode_to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_tokens_are_proof_and_anything_else_is_not() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "secret-1,alice,1,\"dev,system:masters\"\n")?;
    let server = Server::start(&["--token-auth-file", tokens.to_str().expect("text")])?;

    // The kubeconfig's certificate.
    Door::admin(&server).get("namespaces", "", "default").await.expect("the administrator reads");

    // A token that is known, and one that is not.
    let with_token = |token: Option<&str>| {
        let mut config = ClientConfig { client_certificate: None, ..config(&server) };
        config.token = token.map(str::to_owned);
        Door::of(&Client::new(&config).expect("a client"))
    };
    with_token(Some("secret-1")).get("namespaces", "", "default").await.expect("alice reads");
    let error = with_token(Some("secret-2")).get("namespaces", "", "default").await.expect_err("a bad token");
    assert_eq!(
        (error.reason, error.code, error.grpc_code()),
        (Reason::Unauthorized, 401, tonic::Code::Unauthenticated)
    );
    let error = with_token(None).get("namespaces", "", "default").await.expect_err("nobody");
    assert_eq!((error.reason, error.code), (Reason::Forbidden, 403));
    assert!(error.message.contains("system:anonymous"), "{}", error.message);

    // What is no bearer token is no proof at all (Kubernetes 1.36): whoever shows it is nobody.
    let nobody = raw::nobody(&server);
    for header in ["Basic c2VjcmV0LTE6", "Bearer", "secret-1"] {
        let error = raw::call(&nobody, GET, get_request(), &[("authorization", header)]).await.expect_err(header);
        assert_eq!(error.reason, Reason::Forbidden, "{header}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_version_and_health_alone() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let nobody = raw::nobody(&server);
    for path in ["/version", "/healthz", "/livez", "/readyz"] {
        let (code, body) = raw::get(&nobody, path).await;
        assert_eq!(code, 200, "{path}: {body}");
    }
    let (_, version) = raw::get(&nobody, "/version").await;
    let version: serde_json::Value = serde_json::from_str(&version)?;
    assert_eq!((&version["major"], &version["minor"]), (&"1".into(), &"36".into()));
    raw::call(&nobody, "/grpc.health.v1.Health/Check", vec![], &[]).await.expect("health is public");

    for path in ["/", "/versions", "/healthz/", "/api/v1/pods", "/metrics"] {
        let (code, body) = raw::get(&nobody, path).await;
        let status: serde_json::Value = serde_json::from_str(&body)?;
        assert_eq!((code, &status["reason"]), (403, &"Forbidden".into()), "{path}: {body}");
    }
    let create = v1::CreateRequest {
        resource: Some(reference("leases", "default", "")),
        json: crate::door::encode(&lease("a", serde_json::json!({}))),
        ..Default::default()
    };
    for (path, message) in [
        (GET, get_request()),
        (CREATE, create.encode_to_vec()),
        ("/listwatch.v1.Resources/Discover", vec![]),
        ("/listwatch.v1.Resources/Watch", vec![]),
        ("/listwatch.v1.Admin/Expire", vec![]),
        ("/listwatch.v1.Admin/Watchers", vec![]),
        ("/listwatch.v1.Nothing/Nothing", vec![]),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", vec![]),
    ] {
        let error = raw::call(&nobody, path, message, &[]).await.expect_err(path);
        assert_eq!(error.reason, Reason::Forbidden, "{path}: {}", error.message);
    }
    let untouched = Door::admin(&server).get("leases", "default", "a").await.expect_err("nothing was written");
    assert_eq!(untouched.reason, Reason::NotFound);
    Ok(())
}

/// Who may do what, the same over both doors: `can`, or a refusal of the same words.
#[tokio::test(flavor = "multi_thread")]
async fn rights_are_the_same_over_both_doors() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let tokens = folder.path().join("tokens.csv");
    let lines = [
        "admin,admin,1,system:masters",
        "joe,joe,2,",
        "viewer,vera,3,readers",
        "cm,system:kube-controller-manager,4,",
        "scheduler,system:kube-scheduler,5,",
        "n1,system:node:n1,6,system:nodes",
        "false,system:node:n1,7,",
    ];
    std::fs::write(&tokens, lines.join("\n"))?;
    let server = Server::start(&["--token-auth-file", tokens.to_str().expect("text")])?;
    let nobody = raw::nobody(&server);
    let role = serde_json::json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "read"}, "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]});
    let binding = serde_json::json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "read", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "read"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}]});
    for (resource, namespace, object) in [("clusterroles", "", role), ("rolebindings", "default", binding)] {
        let place = Some(reference(resource, namespace, ""));
        let create = v1::CreateRequest { resource: place, json: object.to_string().into(), ..Default::default() };
        raw::call(&nobody, CREATE, create.encode_to_vec(), &[("authorization", "Bearer admin")]).await.expect("made");
    }
    let core = |resource: &'static str| ("", resource);
    let leases = ("coordination.k8s.io", "leases");
    // identity, (group, resource), namespace, name ("" = list), may
    for (token, (group, resource), namespace, name, may) in [
        ("admin", core("pods"), "default", "", true),
        ("admin", core("secrets"), "", "", true),
        ("joe", core("pods"), "default", "", false),
        ("joe", core("nodes"), "", "", false),
        ("viewer", core("pods"), "default", "", true),
        ("viewer", core("pods"), "kube-system", "", false),
        ("viewer", core("pods"), "", "", false),
        ("viewer", core("secrets"), "default", "", false),
        ("cm", ("apps", "deployments"), "", "", true),
        ("scheduler", core("nodes"), "", "", true),
        ("scheduler", core("secrets"), "default", "", false),
        ("n1", core("nodes"), "", "n1", true),
        ("n1", core("nodes"), "", "n2", false),
        ("n1", core("nodes"), "", "", false),
        ("n1", core("pods"), "default", "", false),
        ("n1", core("secrets"), "default", "s", false),
        ("n1", leases, "kube-node-lease", "n1", true),
        ("n1", leases, "kube-node-lease", "n2", false),
        ("n1", core("services"), "", "", true),
        ("false", core("nodes"), "", "n1", false),
    ] {
        let case = format!("{token} {group}/{resource} {namespace}/{name}");
        let place = reference(resource, namespace, name);
        let bearer = format!("Bearer {token}");
        let header = [("authorization", bearer.as_str())];
        let over_grpc = if name.is_empty() {
            let list = v1::ListRequest { resource: Some(place), ..Default::default() };
            raw::call(&nobody, "/listwatch.v1.Resources/List", list.encode_to_vec(), &header).await
        } else {
            let get = v1::GetRequest { resource: Some(place), ..Default::default() };
            raw::call(&nobody, GET, get.encode_to_vec(), &header).await
        };
        let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
        let within = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let tail = if name.is_empty() { String::new() } else { format!("/{name}") };
        let (code, body) = raw::get_with(&nobody, &format!("{root}{within}/{resource}{tail}"), &header).await;
        if may {
            assert!(code == 200 || code == 404, "{case}: {code} {body}");
            if let Err(error) = over_grpc {
                assert_eq!((code, error.reason), (404, Reason::NotFound), "{case}");
            }
        } else {
            let refused = over_grpc.expect_err(&case);
            let status: serde_json::Value = serde_json::from_str(&body)?;
            assert_eq!((code, refused.reason), (403, Reason::Forbidden), "{case}: {body}");
            assert_eq!(status["message"], refused.message.as_str(), "{case}");
        }
    }
    Ok(())
}

/// A node's right to evict ends at its own pods, and a refused eviction leaves no mark.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_evicts_no_other_nodes_pod() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "admin,admin,1,system:masters\nn1,system:node:n1,2,system:nodes\n")?;
    let server = Server::start(&["--token-auth-file", tokens.to_str().expect("text")])?;
    let nobody = raw::nobody(&server);
    let create = async |token: &str, place: v1::ResourceRef, object: serde_json::Value| {
        let request =
            v1::CreateRequest { resource: Some(place), json: object.to_string().into(), ..Default::default() };
        let bearer = format!("Bearer {token}");
        raw::call(&nobody, CREATE, request.encode_to_vec(), &[("authorization", bearer.as_str())]).await
    };
    for (name, node) in [("own", "n1"), ("other", "n2")] {
        let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
        create("admin", reference("pods", "default", ""), pod).await.expect("made");
    }
    let evict = async |name: &str| {
        let place = v1::ResourceRef { subresource: "eviction".to_owned(), ..reference("pods", "default", name) };
        let eviction = serde_json::json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": "default"}});
        create("n1", place, eviction).await
    };
    let refused = evict("other").await.expect_err("the pod of another node");
    assert_eq!(refused.reason, Reason::Forbidden);
    assert!(
        refused.message.contains("node n1 can only evict pods with spec.nodeName set to itself"),
        "{}",
        refused.message
    );
    let header = [("authorization", "Bearer admin")];
    let (_, body) = raw::get_with(&nobody, "/api/v1/namespaces/default/pods/other", &header).await;
    assert!(!body.contains("deletionTimestamp") && !body.contains("DisruptionTarget"), "{body}");
    evict("own").await.expect("its own pod");
    Ok(())
}

/// A server with an administrator and others, each of whom shows his own token.
struct Court {
    _folder: tempfile::TempDir,
    _server: Server,
    channel: tonic::transport::Channel,
}

impl Court {
    /// `users`: name and groups, as in a file of tokens; the name is the token.
    fn open(users: &[(&str, &str)]) -> anyhow::Result<Court> {
        let folder = tempfile::tempdir()?;
        let tokens = folder.path().join("tokens.csv");
        let line = |(name, groups): &(&str, &str)| format!("{name},{name},{name},{groups}\n");
        std::fs::write(
            &tokens,
            users.iter().map(line).chain([line(&("admin", "system:masters"))]).collect::<String>(),
        )?;
        let server = Server::start(&["--token-auth-file", tokens.to_str().expect("text")])?;
        Ok(Court { channel: raw::nobody(&server), _server: server, _folder: folder })
    }

    /// Makes an object, or asks a subresource (`place` names it), as this user.
    async fn make(
        &self,
        user: &str,
        place: v1::ResourceRef,
        object: serde_json::Value,
    ) -> Result<bytes::Bytes, listwatch_proto::resource::Status> {
        let request =
            v1::CreateRequest { resource: Some(place), json: object.to_string().into(), ..Default::default() };
        let bearer = format!("Bearer {user}");
        raw::call(&self.channel, CREATE, request.encode_to_vec(), &[("authorization", bearer.as_str())]).await
    }

    /// A role of the whole cluster, and its binding to a user.
    async fn grant(&self, user: &str, rule: serde_json::Value) {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let name = user.replace(':', "-");
        let role = serde_json::json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": [rule]});
        let binding = serde_json::json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": name}, "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}]});
        for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            self.make("admin", reference(resource, "", ""), object).await.expect("made");
        }
    }
}

/// A kubelet gets tokens for whom its pod wants them, and for whom a role says, for nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_asks_tokens_for_the_audiences_of_its_pod() -> anyhow::Result<()> {
    let node = "system:node:n1";
    let court = Court::open(&[(node, "system:nodes")])?;
    let account = serde_json::json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    court.make("admin", reference("serviceaccounts", "default", ""), account).await.expect("made");
    let driver = serde_json::json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": "d.example.com"}, "spec": {"tokenRequests": [{"audience": "of-driver"}]}});
    court.make("admin", reference("csidrivers", "", ""), driver).await.expect("made");
    let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "nodeName": "n1", "serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}],
        "volumes": [
            {"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}},
            {"name": "b", "csi": {"driver": "d.example.com"}}]}});
    let made = court.make("admin", reference("pods", "default", ""), pod).await.expect("made");
    let uid = v1::ObjectResponse::decode(made)?.object.unwrap_or_default().uid;
    let ask = async |audiences: serde_json::Value| {
        let place =
            v1::ResourceRef { subresource: "token".to_owned(), ..reference("serviceaccounts", "default", "robot") };
        let bound = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid});
        let request = serde_json::json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": audiences, "boundObjectRef": bound}});
        court.make(node, place, request).await
    };
    ask(serde_json::json!(["vault"])).await.expect("the pod wants it");
    ask(serde_json::json!(["of-driver"])).await.expect("the driver of its volume wants it");
    for (audiences, told) in [
        (
            serde_json::json!(["other-aud"]),
            "audience \"other-aud\" not found in pod spec volume, system:node:n1 is not \
            authorized to request tokens for this audience",
        ),
        (serde_json::json!([]), "audience \"\" not found in pod spec volume"),
        (serde_json::json!(["vault", "of-driver"]), "node may only request 0 or 1 audiences"),
    ] {
        let refused = ask(audiences.clone()).await.expect_err("refused");
        assert_eq!((refused.reason, refused.code), (Reason::Forbidden, 403), "{audiences}");
        assert!(refused.message.contains(told), "{audiences}: {}", refused.message);
    }
    let rule = serde_json::json!({"verbs": ["request-serviceaccounts-token-audience"], "apiGroups": [""],
        "resources": ["other-aud"], "resourceNames": ["robot"]});
    court.grant(node, rule).await;
    listwatch_integration_tests::eventually(std::time::Duration::from_secs(20), "the role counts", || async {
        ask(serde_json::json!(["other-aud"])).await.map(drop).map_err(|status| status.message)
    })
    .await;
    Ok(())
}

/// What is made has no name to be allowed by: a right to escalate one role covers no role that is not there yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_to_escalate_one_role_makes_none() -> anyhow::Result<()> {
    let court = Court::open(&[("ann", ""), ("bob", "")])?;
    let roles = |verbs: &[&str], names: &[&str]| {
        serde_json::json!({"verbs": verbs, "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"],
            "resourceNames": names})
    };
    court.grant("ann", roles(&["escalate"], &["e1"])).await;
    court.grant("bob", roles(&["escalate"], &[])).await;
    let maker = serde_json::json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "maker"}, "rules": [roles(&["create"], &[])]});
    court.make("admin", reference("clusterroles", "", ""), maker).await.expect("made");
    let subjects = ["ann", "bob"]
        .map(|name| serde_json::json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}));
    let binding = serde_json::json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "maker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maker"},
        "subjects": subjects});
    court.make("admin", reference("clusterrolebindings", "", ""), binding).await.expect("made");
    let make = async |user: &str| {
        let role = serde_json::json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "e1"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
        court.make(user, reference("roles", "default", ""), role).await
    };
    listwatch_integration_tests::eventually(std::time::Duration::from_secs(20), "the roles count", || async {
        let refused = make("ann").await.expect_err("by name alone");
        if refused.message.contains("is attempting to grant RBAC permissions not currently held") {
            Ok(())
        } else {
            Err(refused.message)
        }
    })
    .await;
    make("bob").await.expect("whoever may escalate all roles makes one");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_ends_at_the_authority_on_both_sides() -> anyhow::Result<()> {
    let (server, other) = (Server::start(&[])?, Server::start(&[])?);

    // The client does not trust a server of another authority.
    let distrusting = ClientConfig { certificate_authority: config(&other).certificate_authority, ..config(&server) };
    let error = Client::new(&distrusting)?.discover().await.expect_err("an unknown authority");
    assert!(matches!(error, Error::Transport { .. }), "{error}");

    // The server does not trust a certificate of another authority, nor does it take its bearer for nobody.
    let foreign = ClientConfig { client_certificate: config(&other).client_certificate, ..config(&server) };
    let error = Door::of(&Client::new(&foreign)?).get("namespaces", "", "default").await.expect_err("foreign");
    assert_eq!(error.reason, Reason::Unauthorized, "{}", error.message);
    admin(&server).discover().await.expect("the own authority's is let in");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_claims_is_bounded() -> anyhow::Result<()> {
    let server = Server::start(&["--insecure-resource-port", "0"])?;
    let plain = format!("http://{}", server.address("insecure"));
    let channel = tonic::transport::Endpoint::from_shared(plain)?.connect().await?;
    let (longest, longer) = ("x".repeat(128), "x".repeat(129));
    for good in [&[("lw-client", longest.as_str())][..], &[("lw-client", "")], &[("lw-seen-revision", "7")], &[]] {
        raw::call(&channel, GET, get_request(), good).await.expect("taken");
    }
    for bad in [
        ("lw-client", longer.as_str()),
        ("lw-seen-revision", "-1"),
        ("lw-seen-revision", ""),
        ("lw-seen-revision", "many"),
        ("lw-seen-revision", "9223372036854775808"),
    ] {
        let error = raw::call(&channel, GET, get_request(), &[bad]).await.expect_err("refused");
        assert_eq!(error.reason, Reason::BadRequest, "{bad:?}");
        assert!(error.message.contains(bad.0), "{}", error.message);
    }
    Ok(())
}
