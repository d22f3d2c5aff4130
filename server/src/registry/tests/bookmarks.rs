//! What a bookmark carries, beside what kube-apiserver 1.36.3 was seen to send for every kind (`tests/data/bookmarks.json`).

use listwatch_proto::resource::KINDS;
use serde_json::{Map, Value};

use super::bed;

const BOOKMARKS: &str = include_str!("../../../tests/data/bookmarks.json");

#[tokio::test(flavor = "multi_thread")]
async fn a_bookmark_is_an_object_with_nothing_in_it_as_upstream_writes_it() {
    let recorded: Map<String, Value> = serde_json::from_str(BOOKMARKS).expect("JSON");
    let registry = bed().registry;
    let (mut seen, mut differ) = (0, Vec::new());
    for kind in KINDS {
        let Some(expected) = recorded.get(&format!("{}/{}", kind.api_version(), kind.kind)) else { continue };
        let blank = registry.blank(kind, 7, &[("k", "v")]);
        let mut found: Value = serde_json::from_slice(&blank.json()).expect("JSON");
        assert_eq!(found["metadata"]["resourceVersion"], "7", "{}", kind.kind);
        assert_eq!(found["metadata"]["annotations"]["k"], "v", "{}", kind.kind);
        let metadata = found["metadata"].as_object_mut().expect("a map");
        metadata.remove("resourceVersion");
        let annotations = metadata["annotations"].as_object_mut().expect("a map");
        annotations.remove("k");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
        if &found != expected {
            differ.push(format!("{}: {found} is not {expected}", kind.kind));
        }
        // It has a row too, whatever is not there.
        assert!(registry.row(&blank).len() >= registry.columns(kind).len(), "{}", kind.kind);
        seen += 1;
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(seen > 40, "{seen} kinds");
}
