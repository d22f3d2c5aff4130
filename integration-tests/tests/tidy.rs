//! The house rules, as tests: layers, lengths, module docs, and the things that may be named in one place only.
//!
//! A new arrow between rooms is a line in [`ROOMS`] and a reason in the commit that adds it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use listwatch_proto::resource::KINDS;

/// Lines of a file at most.
const FILE_LINES_MAX: usize = 800;
/// Lines of a function at most, from its signature to its closing brace.
const FUNCTION_LINES_MAX: usize = 80;

/// Which rooms of a crate a room may import. A room that is not listed is the crate's composition root.
const ROOMS: &[(&str, &str, &[&str])] = &[
    ("server", "clock", &[]),
    ("server", "storage", &["clock"]),
    ("server", "transport", &["clock"]),
    ("server", "etcd", &["storage", "clock", "auth", "transport"]),
    ("server", "registry", &["storage", "clock"]),
    ("server", "pki", &["clock"]),
    ("server", "auth", &["clock", "registry", "storage", "transport"]),
    ("server", "resources", &["registry", "kubelets", "storage", "clock", "auth", "transport"]),
    ("server", "kubelets", &["registry", "transport"]),
    ("server", "rest", &["registry", "kubelets", "storage", "clock", "auth", "transport"]),
    ("components", "clock", &[]),
    ("components", "client", &["clock"]),
    ("components", "runtime", &["client", "clock"]),
    ("components", "controller_manager", &["client", "runtime", "clock"]),
    ("components", "scheduler", &["client", "runtime", "clock"]),
    ("components", "kubelet", &["client", "runtime", "clock"]),
];

/// Which crates a crate may name in its library or binary.
const CRATES: &[(&str, &[&str])] = &[
    ("proto", &[]),
    ("server", &["listwatch_proto"]),
    ("components", &["listwatch_proto"]),
    ("cli", &["listwatch_proto", "listwatch_server", "listwatch_components"]),
    ("bench", &["listwatch_proto"]),
    ("integration-tests", &["listwatch_proto", "listwatch_server", "listwatch_components"]),
];

/// Where the rooms of the API may name a kind, and why; elsewhere they know none and ask its rules or its row.
const KIND_PLACES: &[(&str, &str)] = &[
    ("server/src/registry/admission/", "plugins that look at other objects, as upstream has them"),
    ("server/src/registry/custom/", "definitions, and what they define"),
    ("server/src/registry/first/", "objects that are there from the start"),
    ("server/src/registry/kinds/", "what each kind means"),
    ("server/src/registry/pods/", "what the subresources of pods do"),
    ("server/src/rest/discovery.rs", "the kinds that subresources are asked in"),
    ("server/src/rest/path.rs", "a path names its namespace"),
    ("server/src/rest/proxy/", "what pods, services and nodes are reached by"),
];

/// A source file: its path from the root of the repository, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The lines of the file without its unit tests, which stand at its end.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_test = self.path.contains("/tests/") || self.path.ends_with("tests.rs");
        let end = if is_test { 0 } else { self.text.lines().take_while(|l| !l.starts_with("#[cfg(test)]")).count() };
        self.text.lines().enumerate().take(end)
    }

    fn krate(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }

    /// The top-level room of the crate that the file lies in: `storage` for `server/src/storage/log/frame.rs`.
    fn room(&self) -> &str {
        let inside = self.path.split_once("/src/").map_or("", |(_, inside)| inside);
        inside.split('/').next().unwrap_or_default().trim_end_matches(".rs")
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder").map(|e| e.expect("an entry")) {
        let (path, name) = (entry.path(), entry.file_name());
        if name == "target" || name == ".git" || name == "node_modules" || name == "venv" {
            continue;
        }
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

fn files(endings: &[&str]) -> Vec<Source> {
    let (root, mut paths) = (root(), Vec::new());
    walk(&root, &mut paths);
    paths.sort();
    let wanted = paths.iter().filter(|p| endings.iter().any(|e| p.to_string_lossy().ends_with(e)));
    wanted
        .filter_map(|p| {
            let path = p.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
            Some(Source { path, text: fs::read_to_string(p).ok()? })
        })
        .collect()
}

fn rust() -> Vec<Source> {
    files(&[".rs"]).into_iter().filter(|s| !s.path.contains("/generated/")).collect()
}

fn report(rule: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}

#[test]
fn every_module_says_what_it_is() {
    let faults: Vec<_> =
        rust().iter().filter(|s| !s.text.trim_start().starts_with("//!")).map(|s| s.path.clone()).collect();
    report("a module begins with //!", &faults);
}

#[test]
fn files_are_not_longer_than_the_wall() {
    let long = rust().into_iter().filter(|s| s.text.lines().count() > FILE_LINES_MAX);
    let faults: Vec<_> = long.map(|s| format!("{}: {} lines", s.path, s.text.lines().count())).collect();
    report("a file has at most 800 lines", &faults);
}

#[test]
fn functions_fit_a_screen() {
    let mut faults = Vec::new();
    for source in rust() {
        let mut open: Option<(usize, usize, String)> = None;
        for (number, line) in source.code() {
            let trimmed = line.trim_start();
            let indent = line.len() - trimmed.len();
            match &open {
                None if is_function(trimmed) && !trimmed.ends_with(';') && !trimmed.ends_with('}') => {
                    open = Some((number, indent, trimmed.to_owned()));
                }
                Some((start, at, name)) if indent == *at && (trimmed == "}" || trimmed.ends_with(';')) => {
                    let lines = number - start + 1;
                    if lines > FUNCTION_LINES_MAX {
                        faults.push(format!("{}:{}: {lines} lines: {name}", source.path, start + 1));
                    }
                    open = None;
                }
                _ => {}
            }
        }
    }
    report("a function has at most 80 lines", &faults);
}

fn is_function(line: &str) -> bool {
    let words = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
    ["fn ", "async fn ", "const fn ", "unsafe fn "].iter().any(|start| words.starts_with(start))
}

#[test]
fn a_mod_file_is_docs_list_and_reexports() {
    let rooms = ["proto/", "server/", "components/"];
    let mods =
        rust().into_iter().filter(|s| s.path.ends_with("/mod.rs") && rooms.iter().any(|r| s.path.starts_with(r)));
    let faults: Vec<_> = mods.filter(|s| s.code().any(|(_, l)| is_function(l.trim_start()))).map(|s| s.path).collect();
    report("mod.rs holds docs, list and re-exports only", &faults);
}

#[test]
fn no_drawer_is_called_utils() {
    let names = ["utils", "util", "common", "helpers", "helper", "misc"];
    let faults: Vec<_> = rust()
        .into_iter()
        .filter(|s| s.path.trim_end_matches(".rs").split('/').any(|part| names.contains(&part)))
        .map(|s| s.path)
        .collect();
    report("a thing lies where its noun lives", &faults);
}

#[test]
fn crates_import_downwards_only() {
    let mut faults = Vec::new();
    for source in rust() {
        let Some((_, allowed)) = CRATES.iter().find(|(name, _)| *name == source.krate()) else { continue };
        // An example in the docs speaks as a user of the crate.
        for (number, line) in source.code().filter(|(_, l)| !l.trim_start().starts_with("//")) {
            for name in ["listwatch_proto", "listwatch_server", "listwatch_components"] {
                if line.contains(&format!("{name}::")) && !allowed.contains(&name) {
                    faults.push(format!("{}:{}: {name}", source.path, number + 1));
                }
            }
        }
    }
    report("server and components stand on proto and never import each other", &faults);
}

#[test]
fn rooms_import_downwards_only() {
    let mut faults = Vec::new();
    for source in rust() {
        let Some((_, room, allowed)) = ROOMS.iter().find(|(k, r, _)| *k == source.krate() && *r == source.room())
        else {
            continue;
        };
        for (number, line) in source.code() {
            let mut rest = line.split("//").next().unwrap_or_default();
            while let Some((_, after)) = rest.split_once("crate::") {
                let target: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let known = ROOMS.iter().any(|(k, r, _)| *k == source.krate() && *r == target);
                if known && target != *room && !allowed.contains(&target.as_str()) {
                    faults.push(format!("{}:{}: {room} imports {target}", source.path, number + 1));
                }
                rest = after;
            }
        }
    }
    report("imports between rooms follow the table", &faults);
}

/// A text that may stand in code in certain files only.
fn named_only_in(what: &str, needles: &[&str], krates: &[&str], places: &[&str]) {
    let mut faults = Vec::new();
    for source in rust().iter().filter(|s| krates.contains(&s.krate()) && !places.contains(&s.path.as_str())) {
        for (number, line) in source.code().filter(|(_, l)| !l.trim_start().starts_with("//")) {
            if needles.iter().any(|n| line.contains(n)) {
                faults.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    report(what, &faults);
}

#[test]
fn sled_is_named_in_one_file() {
    named_only_in(
        "only the state names sled",
        &["sled::", "use sled"],
        &["server"],
        &["server/src/storage/state/sled.rs"],
    );
}

#[test]
fn the_clock_is_read_in_one_file() {
    let reads = ["Instant::now(", "SystemTime::now(", "Timestamp::now(", "Zoned::now("];
    let places = ["server/src/clock.rs", "components/src/clock.rs"];
    named_only_in("time comes from the clock", &reads, &["proto", "server", "components"], &places);
}

/// The first kind that a line of code names in quotes: `"Pod"`, `"pods"`.
fn named_kind(line: &str) -> Option<&'static str> {
    let quoted = |name: &str| line.contains(&format!("\"{name}\""));
    KINDS.iter().flat_map(|kind| [kind.kind, kind.plural]).find(|name| quoted(name))
}

#[test]
fn machinery_knows_no_kind() {
    let rooms = ["server/src/registry/", "server/src/resources/", "server/src/rest/"];
    let (mut faults, mut used) = (Vec::new(), Vec::new());
    for source in rust().iter().filter(|s| rooms.iter().any(|room| s.path.starts_with(room))) {
        let place = KIND_PLACES.iter().find(|(place, _)| source.path.starts_with(place));
        for (number, line) in source.code().filter(|(_, l)| !l.trim_start().starts_with("//")) {
            match (named_kind(line), place) {
                (Some(_), Some((place, _))) => used.push(*place),
                (Some(name), None) => faults.push(format!("{}:{}: {name}", source.path, number + 1)),
                (None, _) => {}
            }
        }
    }
    report("what is one kind's business stands with the kind, or in a place that KIND_PLACES names", &faults);
    let idle = KIND_PLACES.iter().filter(|(place, _)| !used.contains(place));
    report("a place is listed while it names kinds", &idle.map(|(place, _)| (*place).to_owned()).collect::<Vec<_>>());
}

#[test]
fn nothing_is_left_over() {
    // Joined here, so that this file does not find itself.
    let words = ["TO,DO", "FIX,ME", "todo,!(", "unimplemented,!(", "dbg,!("].map(|word| word.replace(',', ""));
    let mut faults = Vec::new();
    for source in rust() {
        for (number, line) in source.text.lines().enumerate() {
            if words.iter().any(|w| line.contains(w.as_str())) {
                faults.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    report("no stray notes and no holes", &faults);
}

#[test]
fn documents_have_no_broken_links() {
    let mut faults = Vec::new();
    for document in files(&[".md"]) {
        let folder = root().join(&document.path).parent().expect("a folder").to_owned();
        for (number, line) in document.text.lines().enumerate() {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = link.split('#').next().unwrap_or_default();
                let outside = target.is_empty() || target.contains("://");
                if !outside && !folder.join(target).exists() {
                    faults.push(format!("{}:{}: {link}", document.path, number + 1));
                }
            }
        }
    }
    report("every link of a document leads somewhere", &faults);
}
