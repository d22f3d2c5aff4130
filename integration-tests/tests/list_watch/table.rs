//! The table of bugs in `docs/conformance.md` names a test for each row, and each test is a row's.

use std::collections::BTreeSet;

const TABLE: &str = include_str!("../../../docs/conformance.md");
const FILES: [(&str, &str); 9] = [
    ("events", include_str!("events.rs")),
    ("history", include_str!("history.rs")),
    ("informers", include_str!("informers.rs")),
    ("kube_rs", include_str!("kube_rs.rs")),
    ("owners", include_str!("owners.rs")),
    ("pages", include_str!("pages.rs")),
    ("patches", include_str!("patches.rs")),
    ("revisions", include_str!("revisions.rs")),
    ("state", include_str!("state.rs")),
];
/// Those that wait for what is not built: restoring a backup, and a second server over one store.
const LATER: [u32; 2] = [11, 21];

/// The rows of the table: number and tests.
fn rows() -> Vec<(u32, BTreeSet<String>)> {
    let table = TABLE.split("<!-- bugs found in the wild: held by a test -->").nth(1).expect("the table");
    let table = table.split("<!-- end -->").next().expect("its end");
    let cells = table.lines().filter(|line| line.starts_with("| ")).map(|line| line.split('|').map(str::trim));
    let numbered = cells.filter_map(|mut cells| {
        let number = cells.nth(1)?.parse().ok()?;
        let tests = cells.nth(2)?.split(", ").map(|test| test.trim_matches('`').to_owned());
        Some((number, tests.filter(|test| test.contains("::")).collect()))
    });
    numbered.collect()
}

#[test]
fn every_row_has_its_tests_and_every_test_its_row() {
    let rows = rows();
    assert_eq!(rows.iter().map(|(row, _)| *row).collect::<Vec<_>>(), (1..=33).collect::<Vec<_>>());
    let mut named = BTreeSet::new();
    for (row, tests) in rows {
        assert_eq!(tests.is_empty(), LATER.contains(&row), "row {row}: {tests:?}");
        for test in tests {
            assert!(test.contains(&format!("::row_{row:02}_")), "row {row} names {test}");
            named.insert(test);
        }
    }
    let is = |word: &str| word.starts_with("row_") && word[4..].starts_with(|c: char| c.is_ascii_digit());
    let written = FILES.iter().flat_map(|(file, text)| {
        let names = text.lines().filter_map(|line| line.strip_prefix("async fn ")?.split('(').next());
        names.filter(|name| is(name)).map(move |name| format!("{file}::{name}"))
    });
    assert_eq!(named, written.collect::<BTreeSet<_>>());
}
