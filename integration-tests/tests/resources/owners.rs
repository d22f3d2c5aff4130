//! Who owns which fields, server-side apply, and the deletion of collections.

use listwatch_integration_tests::Server;
use listwatch_proto::resource::Reason;
use listwatch_proto::v1::{self, PatchType};
use serde_json::{Value, json};

use crate::door::{Door, content, lease, object, reference};

fn wanted(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
}

#[tokio::test(flavor = "multi_thread")]
async fn managers_share_an_object_by_its_fields() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    let at = || v1::ResourceRef { group: String::new(), ..reference("configmaps", "default", "c") };
    let made = door.apply(at(), "one", &wanted(json!({"a": "1", "b": "1"})), false).await.expect("made");
    let again = door.apply(at(), "one", &wanted(json!({"a": "1", "b": "1"})), false).await.expect("the same");
    assert_eq!(object(&made).revision, object(&again).revision, "nothing has changed");

    let refused = door.apply(at(), "two", &wanted(json!({"a": "2"})), false).await.expect_err("it is one's");
    assert_eq!(
        (refused.reason, refused.message.as_str()),
        (Reason::Conflict, "Apply failed with 1 conflict: conflict with \"one\": .data.a")
    );
    assert_eq!(refused.causes[0].field, ".data.a");
    door.apply(at(), "two", &wanted(json!({"a": "2"})), true).await.expect("forced");

    // What nobody wants any more goes; what another wants stays.
    let less = door.apply(at(), "one", &wanted(json!({})), false).await.expect("less");
    assert_eq!(content(object(&less))["data"], json!({"a": "2"}));
    let patched = door.patch(at(), PatchType::Merge, &json!({"data": {"z": "1"}})).await.expect("patched");
    let entries = content(object(&patched))["metadata"]["managedFields"].clone();
    let operations: Vec<_> = entries.as_array().expect("tracked").iter().map(|e| e["operation"].clone()).collect();
    assert!(operations.contains(&json!("Apply")) && operations.contains(&json!("Update")), "{entries}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_goes_in_pages() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let door = Door::admin(&server);
    for name in ["a", "b", "c", "d"] {
        let app = if name == "d" { "db" } else { "web" };
        door.create("leases", &lease(name, json!({"app": app}))).await.expect("created");
    }
    let mut request = v1::DeleteCollectionRequest {
        resource: Some(reference("leases", "default", "")),
        label_selector: "app=web".into(),
        limit: 2,
        ..Default::default()
    };
    let first = door.delete_collection(request.clone()).await.expect("two");
    let names =
        |answer: &v1::DeleteCollectionResponse| answer.items.iter().map(|item| item.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&first), ["a", "b"]);
    request.continue_token = first.continue_token;
    let second = door.delete_collection(request).await.expect("the rest");
    assert_eq!((names(&second), second.continue_token.as_str()), (vec!["c".to_owned()], ""));
    door.get("leases", "default", "d").await.expect("not meant");
    let everywhere = v1::DeleteCollectionRequest { resource: Some(reference("leases", "", "")), ..Default::default() };
    let refused = door.delete_collection(everywhere).await.expect_err("not in all namespaces");
    assert_eq!(refused.reason, Reason::MethodNotAllowed);
    Ok(())
}
