//! Every verb, its views and its refusals.

use listwatch_integration_tests::Server;
use listwatch_proto::resource::Reason;
use listwatch_proto::v1::{self, PatchType, View};
use serde_json::{Value, json};

use crate::door::{Door, content, encode, lease, object, pod, reference, revision_of};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_lives_from_create_to_delete() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    let before = door.revision().await;
    let created = door.create("leases", &lease("a", json!({"app": "web"}))).await.expect("created");
    let first = object(&created);
    assert_eq!((first.kind.as_str(), first.api_version.as_str()), ("Lease", "coordination.k8s.io/v1"));
    assert_eq!((first.namespace.as_str(), first.name.as_str()), ("default", "a"));
    assert!(first.revision > before && revision_of(&created.header) >= first.revision);
    let body = content(first);
    assert_eq!(body["metadata"]["resourceVersion"], json!(first.revision.to_string()));
    assert_eq!(body["metadata"]["uid"], json!(first.uid));

    let error = door.create("leases", &lease("a", json!({}))).await.expect_err("it is there");
    assert_eq!((error.reason, error.code), (Reason::AlreadyExists, 409));

    // Update with a version: only that version; without: whatever is there.
    let mut changed = body.clone();
    changed["spec"]["holderIdentity"] = json!("me");
    let at = || reference("leases", "default", "a");
    let updated = door.update(at(), &changed).await.expect("the version it was read at");
    assert!(object(&updated).revision > first.revision);
    let error = door.update(at(), &changed).await.expect_err("an older version");
    assert_eq!((error.reason, error.code, error.name.as_str()), (Reason::Conflict, 409, "a"));
    // A Lease is never updated without a version (Kubernetes 1.36); a Pod is.
    let without_version = |mut body: Value| {
        body["metadata"].as_object_mut().expect("a map").remove("resourceVersion");
        body
    };
    let error = door.update(at(), &without_version(changed)).await.expect_err("no version");
    assert_eq!((error.reason, error.causes[0].field.as_str()), (Reason::Invalid, "metadata.resourceVersion"));
    let mut labelled = content(object(&door.create("pods", &pod("p")).await.expect("created")));
    labelled["metadata"]["labels"] = json!({"a": "b"});
    door.update(reference("pods", "default", "p"), &without_version(labelled)).await.expect("any version");

    let read = door.get("leases", "default", "a").await.expect("read");
    assert_eq!(content(object(&read))["spec"]["holderIdentity"], json!("me"));
    assert_eq!(object(&read).uid, first.uid);

    // Preconditions of a delete.
    let delete = |uid: &str| v1::DeleteRequest {
        resource: Some(at()),
        preconditions: Some(v1::Preconditions { uid: uid.into(), ..Default::default() }),
        ..Default::default()
    };
    let error = door.delete(delete("another")).await.expect_err("another uid");
    assert_eq!(error.reason, Reason::Conflict);
    let deleted = door.delete(delete(&first.uid)).await.expect("its own uid");
    assert!(deleted.removed);
    assert_eq!(deleted.object.expect("as it was").uid, first.uid);
    for error in [
        door.get("leases", "default", "a").await.expect_err("gone"),
        door.delete(delete("")).await.expect_err("gone"),
        door.patch(at(), PatchType::Merge, &json!({})).await.expect_err("gone"),
    ] {
        assert_eq!((error.reason, error.code), (Reason::NotFound, 404));
        assert_eq!(error.message, "leases.coordination.k8s.io \"a\" not found");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_list_are_cut_from_one_snapshot() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    for number in 0..25 {
        let app = if number % 2 == 0 { "even" } else { "odd" };
        door.create("leases", &lease(&format!("l{number:02}"), json!({"app": app}))).await.expect("created");
    }
    let request = |limit, token: &str| v1::ListRequest {
        resource: Some(reference("leases", "default", "")),
        limit,
        continue_token: token.into(),
        ..Default::default()
    };
    let mut page = door.list(request(10, "")).await.expect("the first page");
    let (snapshot, mut names) = (page.revision, Vec::new());
    assert_eq!((page.items.len(), page.remaining_item_count), (10, 15));
    loop {
        assert_eq!(page.revision, snapshot, "every page is of the snapshot");
        names.extend(page.items.iter().map(|item| item.name.clone()));
        if page.continue_token.is_empty() {
            break;
        }
        // What happens between two pages is not seen by them.
        let number = names.len();
        door.create("leases", &lease(&format!("m{number}"), json!({}))).await.expect("created");
        door.delete(v1::DeleteRequest {
            resource: Some(reference("leases", "default", &format!("l{:02}", 24 - number / 10))),
            ..Default::default()
        })
        .await
        .expect("deleted");
        page = door.list(request(10, &page.continue_token)).await.expect("the next page");
    }
    assert_eq!(names, (0..25).map(|number| format!("l{number:02}")).collect::<Vec<_>>());

    let select = |labels: &str, fields: &str| v1::ListRequest {
        label_selector: labels.into(),
        field_selector: fields.into(),
        ..request(0, "")
    };
    assert_eq!(door.list(select("app=odd", "")).await.expect("by label").items.len(), 11);
    assert_eq!(door.list(select("", "metadata.name=l03")).await.expect("by field").items.len(), 1);
    let exact = v1::ListRequest { exact_revision: snapshot, ..request(0, "") };
    assert_eq!(door.list(exact).await.expect("the snapshot again").items.len(), 25);

    // When history has gone, an exact list and a token of it are refused with where history stands.
    let stale = door.list(request(10, "")).await.expect("a page").continue_token;
    door.create("leases", &lease("last", json!({}))).await.expect("created");
    crate::door::admin(&server).admin().expire(v1::ExpireRequest { revision: 0 }).await.expect("expired");
    for old in [v1::ListRequest { exact_revision: snapshot, ..request(0, "") }, request(10, &stale)] {
        let error = door.list(old).await.expect_err("the snapshot is gone");
        assert_eq!((error.reason, error.code), (Reason::Expired, 410), "{}", error.message);
        assert!(error.oldest_revision > snapshot && error.current_revision >= error.oldest_revision, "{error:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_big_list_comes_in_bounded_messages() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    let padding = "x".repeat(100_000);
    for number in 0..50 {
        let mut body = lease(&format!("l{number:02}"), json!({}));
        body["metadata"]["annotations"] = json!({"padding": padding});
        door.create("leases", &body).await.expect("created");
    }
    let (mut names, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let request = v1::ListRequest {
            resource: Some(reference("leases", "", "")),
            continue_token: token,
            ..Default::default()
        };
        let page = door.list(request).await.expect("a page that no limit was asked for");
        let bytes: usize = page.items.iter().map(|item| item.json.len()).sum();
        assert!(bytes < 4 << 20, "{bytes} bytes in one message");
        names.extend(page.items.into_iter().map(|item| item.name));
        pages += 1;
        token = page.continue_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(names.len(), 50);
    assert!(pages >= 2, "5 MB came in one message");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn subresources_own_their_part() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "m", "image": "i"}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    door.create("deployments", &deployment).await.expect("created");
    let part = |subresource: &str| v1::ResourceRef {
        subresource: subresource.into(),
        ..reference("deployments", "default", "web")
    };

    // scale reads and writes the replicas.
    let scale = door.send_get(v1::GetRequest { resource: Some(part("scale")), ..Default::default() }).await;
    let scale = scale.expect("a scale");
    assert_eq!(
        (object(&scale).kind.as_str(), content(object(&scale))["spec"]["replicas"].clone()),
        ("Scale", json!(2))
    );
    let patched = door.patch(part("scale"), PatchType::Merge, &json!({"spec": {"replicas": 7}})).await;
    assert_eq!(object(&patched.expect("scaled")).kind, "Scale");
    let mut wanted = content(object(&scale));
    wanted["spec"]["replicas"] = json!(9);
    let error = door.update(part("scale"), &wanted).await.expect_err("an older version");
    assert_eq!(error.reason, Reason::Conflict);
    let read = content(object(&door.get("deployments", "default", "web").await.expect("read")));
    assert_eq!((&read["spec"]["replicas"], &read["metadata"]["generation"]), (&json!(7), &json!(2)));

    // status is written through its own door alone, which touches nothing else.
    let both = json!({"spec": {"replicas": 1}, "status": {"replicas": 5, "observedGeneration": 2}});
    door.patch(part("status"), PatchType::Merge, &both).await.expect("status");
    let read = content(object(&door.get("deployments", "default", "web").await.expect("read")));
    assert_eq!((&read["spec"]["replicas"], &read["status"]["replicas"]), (&json!(7), &json!(5)));
    door.patch(part(""), PatchType::Merge, &json!({"status": {"replicas": 100}})).await.expect("taken, but not there");
    let read = content(object(&door.get("deployments", "default", "web").await.expect("read")));
    assert_eq!(read["status"]["replicas"], json!(5));

    // binding sets the node, once.
    let created = door.create("pods", &pod("p")).await.expect("a pod");
    let binding = |uid: &str| {
        json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "namespace": "default", "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node01"},
        })
    };
    let at = || v1::ResourceRef { subresource: "binding".into(), ..reference("pods", "default", "p") };
    let error = door.create_at(at(), &binding("another")).await.expect_err("another pod");
    assert_eq!(error.reason, Reason::Conflict);
    let uid = object(&created).uid.clone();
    door.create_at(at(), &binding(&uid)).await.expect("bound");
    let bound = content(object(&door.get("pods", "default", "p").await.expect("read")));
    assert_eq!(bound["spec"]["nodeName"], json!("node01"));
    let error = door.create_at(at(), &binding(&uid)).await.expect_err("bound already");
    assert_eq!(error.reason, Reason::Conflict);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_name_what_is_wrong() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    // Every fault is a cause with its field.
    let mut faulty = pod("Bad_Name");
    faulty["spec"]["containers"] = json!([{"name": "a", "image": "i"}, {"name": "a"}]);
    let error = door.create("pods", &faulty).await.expect_err("faulty");
    assert_eq!((error.reason, error.code), (Reason::Invalid, 422));
    let fields: Vec<_> = error.causes.iter().map(|cause| cause.field.as_str()).collect();
    for field in ["metadata.name", "spec.containers[1].name", "spec.containers[1].image"] {
        assert!(fields.contains(&field), "{field} is not in {fields:?}");
    }

    // Unknown fields: refused, told or dropped, as asked.
    let mut unknown = lease("a", json!({}));
    unknown["spec"]["colour"] = json!("red");
    let create = |validation: v1::FieldValidation, dry_run| v1::CreateRequest {
        resource: Some(reference("leases", "default", "")),
        json: encode(&unknown),
        field_validation: validation.into(),
        dry_run,
        ..Default::default()
    };
    let error = door.send_create(create(v1::FieldValidation::Strict, false)).await.expect_err("strict");
    assert_eq!(error.reason, Reason::BadRequest);
    assert!(error.message.contains("unknown field \"spec.colour\""), "{}", error.message);
    let told = door.send_create(create(v1::FieldValidation::Warn, true)).await.expect("told");
    assert!(told.warnings.iter().any(|w| w.contains("spec.colour")), "{:?}", told.warnings);
    let dropped = door.send_create(create(v1::FieldValidation::Ignore, true)).await.expect("dropped");
    assert_eq!((dropped.warnings.len(), &content(object(&dropped))["spec"]["colour"]), (0, &Value::Null));

    // A dry run does everything but write.
    let before = door.revision().await;
    assert_eq!(door.get("leases", "default", "a").await.expect_err("not there").reason, Reason::NotFound);
    door.create("leases", &lease("b", json!({}))).await.expect("created");
    let dry_delete =
        v1::DeleteRequest { resource: Some(reference("leases", "default", "b")), dry_run: true, ..Default::default() };
    door.delete(dry_delete).await.expect("as if");
    door.get("leases", "default", "b").await.expect("still there");
    assert_eq!(door.revision().await, before + 1, "dry runs write nothing");

    // What is not served is refused by name.
    let at = reference("leases", "default", "b");
    let error = door.patch(at, PatchType::Unspecified, &json!({"spec": {}})).await.expect_err("of no form");
    assert!(error.reason == Reason::BadRequest && error.message.contains("type"), "{error:?}");
    let policy = v1::DeleteRequest {
        resource: Some(reference("leases", "default", "b")),
        propagation_policy: "Sideways".into(),
        ..Default::default()
    };
    let error = door.delete(policy).await.expect_err("no such policy");
    assert!(error.reason == Reason::BadRequest && error.message.contains("Sideways"), "{error:?}");
    let selected = v1::ListRequest {
        resource: Some(reference("pods", "", "")),
        field_selector: "spec.hostname=x".into(),
        ..Default::default()
    };
    let error = door.list(selected).await.expect_err("no such selector");
    assert!(error.reason == Reason::BadRequest && error.message.contains("spec.hostname"), "{error:?}");
    let mut stray = lease("c", json!({}));
    stray["metadata"]["namespace"] = json!("nowhere");
    let error = door.create("leases", &stray).await.expect_err("no such namespace");
    assert_eq!(error.reason, Reason::NotFound);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn json_patches_are_whole_or_nothing() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    door.create("leases", &lease("a", json!({"app": "web"}))).await.expect("created");
    let at = || reference("leases", "default", "a");
    let test_fails = json!([
        {"op": "replace", "path": "/spec/holderIdentity", "value": "me"},
        {"op": "test", "path": "/metadata/labels/app", "value": "db"},
    ]);
    let error = door.patch(at(), PatchType::Json, &test_fails).await.expect_err("the test fails");
    assert_eq!((error.reason, error.code), (Reason::Invalid, 422), "{}", error.message);
    let unchanged = content(object(&door.get("leases", "default", "a").await.expect("read")));
    assert_eq!(unchanged["spec"]["holderIdentity"], json!("nobody"));
    let good = json!([{"op": "remove", "path": "/metadata/labels/app"}, {"op": "add", "path": "/spec/holderIdentity", "value": "me"}]);
    let patched = door.patch(at(), PatchType::Json, &good).await.expect("patched");
    let patched = content(object(&patched));
    assert_eq!((&patched["spec"]["holderIdentity"], patched["metadata"].get("labels")), (&json!("me"), None));
    // A version in the patch is a condition.
    let error = door.patch(at(), PatchType::Merge, &json!({"metadata": {"resourceVersion": "1"}})).await;
    assert_eq!(error.expect_err("an older version").reason, Reason::Conflict);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn views_show_rows_or_metadata() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    door.create("pods", &pod("p")).await.expect("created");
    let get = |view: View| v1::GetRequest {
        resource: Some(reference("pods", "default", "p")),
        view: view.into(),
        ..Default::default()
    };
    let table = door.send_get(get(View::Table)).await.expect("a row");
    let columns: Vec<_> = table.columns.iter().filter(|c| c.priority == 0).map(|c| c.name.as_str()).collect();
    assert_eq!(columns, ["Name", "Ready", "Status", "Restarts", "Age"]);
    let cells = &table.row.as_ref().expect("a row").cells;
    assert_eq!(cells.len(), table.columns.len());
    assert_eq!(cells[..4], ["p", "0/1", "Pending", "0"]);
    for answer in [&table, &door.send_get(get(View::Metadata)).await.expect("metadata")] {
        let partial = content(object(answer));
        assert_eq!(partial["kind"], json!("PartialObjectMetadata"));
        assert_eq!((partial["metadata"]["name"].clone(), partial.get("spec")), (json!("p"), None));
    }
    let whole = door.send_get(get(View::Object)).await.expect("whole");
    assert!(whole.row.is_none() && whole.columns.is_empty());
    let error = door.send_get(v1::GetRequest { view: 9, ..get(View::Object) }).await.expect_err("no such view");
    assert!(error.reason == Reason::BadRequest && error.message.contains("view"), "{error:?}");

    let list =
        v1::ListRequest { resource: Some(reference("pods", "", "")), view: View::Table.into(), ..Default::default() };
    let list = door.list(list).await.expect("a table");
    assert_eq!((list.items.len(), list.rows.len(), list.columns.len()), (1, 1, cells.len()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn own_writes_are_read() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let (writer, reader) = (Door::admin(&server), Door::admin(&server));
    writer.create("leases", &lease("a", json!({}))).await.expect("created");
    for round in 0..50 {
        let written = writer.change("a", json!({"spec": {"leaseTransitions": round}})).await;
        let request = v1::GetRequest {
            resource: Some(reference("leases", "default", "a")),
            min_revision: object(&written).revision,
            ..Default::default()
        };
        let read = reader.send_get(request).await.expect("read");
        assert_eq!(content(object(&read))["spec"]["leaseTransitions"], json!(round));
        assert!(revision_of(&read.header) >= object(&written).revision);
    }
    // A revision that never comes: told, not waited for without end.
    let future = v1::GetRequest {
        resource: Some(reference("leases", "default", "a")),
        min_revision: reader.revision().await + 1000,
        ..Default::default()
    };
    let error = reader.send_get(future).await.expect_err("the future");
    assert_eq!((error.reason, error.code), (Reason::Timeout, 504));
    Ok(())
}
