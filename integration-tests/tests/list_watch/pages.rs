//! Pages of a list.

use serde_json::json;

use crate::door::{Door, Read, Speaks, config_map, name, over_both_doors, server};

over_both_doors!(row_12_all_pages_through_a_selector_are_of_one_snapshot);

/// More than what is read of the store at a time while a page is filled through a selector.
const OBJECTS: usize = 1_200;

async fn row_12_all_pages_through_a_selector_are_of_one_snapshot(speaks: Speaks) -> anyhow::Result<()> {
    let server = server()?;
    let door = Door::to(&server, speaks).await;
    for n in 0..OBJECTS {
        let side = if n % 3 == 0 { "in" } else { "out" };
        door.create("configmaps", &config_map(&format!("c{n:04}"), json!({"side": side}))).await.expect("created");
    }
    // While the pages are read, objects change sides from both ends.
    let writer = tokio::spawn({
        let door = door.clone();
        async move {
            for n in (0..OBJECTS / 2).flat_map(|n| [n, OBJECTS - 1 - n]) {
                let side = if n % 3 == 0 { "out" } else { "in" };
                let patch = json!({"metadata": {"labels": {"side": side}}});
                door.merge("configmaps", &format!("c{n:04}"), patch).await.expect("changed");
            }
        }
    });
    let labels = "side=in";
    let mut pages = 0;
    while !writer.is_finished() || pages == 0 {
        let (mut token, mut union, mut snapshot) = (String::new(), Vec::new(), None);
        loop {
            let read = Read { labels, limit: 150, token: token.clone(), ..Read::default() };
            let page = door.list("configmaps", "default", read).await.expect("a page");
            assert!(page.items.len() <= 150);
            assert_eq!(
                *snapshot.get_or_insert(page.revision),
                page.revision,
                "every page is of the first one's snapshot"
            );
            union.extend(
                page.items.iter().map(|item| (name(item).to_owned(), item["metadata"]["resourceVersion"].clone())),
            );
            pages += 1;
            if page.token.is_empty() {
                break;
            }
            assert_eq!(page.items.len(), 150, "a page is full unless it is the last");
            token = page.token;
        }
        let exactly = snapshot.expect("a page");
        let whole =
            door.list("configmaps", "default", Read { labels, exactly, ..Read::default() }).await.expect("a list");
        let whole: Vec<_> = whole
            .items
            .iter()
            .map(|item| (name(item).to_owned(), item["metadata"]["resourceVersion"].clone()))
            .collect();
        assert_eq!(union, whole, "the pages are the list at {exactly}");
    }
    writer.await?;
    Ok(())
}
