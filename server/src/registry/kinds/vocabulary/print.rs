//! Cells that several kinds print alike (kubectl 1.36).

use listwatch_proto::resource::{Object, parse_time};
use serde_json::Value;

use crate::registry::table::{Cell, Column};

/// What an absent time or value prints as.
pub(in crate::registry::kinds) const UNKNOWN: &str = "<unknown>";
/// What an empty value prints as.
pub(in crate::registry::kinds) const NONE: &str = "<none>";

/// A column of no special format.
pub(in crate::registry::kinds) const fn column(
    name: &'static str,
    data_type: &'static str,
    description: &'static str,
    priority: i32,
) -> Column {
    Column { name, data_type, format: "", description, priority }
}

/// The name column.
pub(in crate::registry) const NAME: Column = Column {
    name: "Name",
    data_type: "string",
    format: "name",
    description: "Name must be unique within a namespace. Is required when creating resources, although some resources \
        may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
        creation idempotence and configuration definition. Cannot be updated. More info: \
        https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
    priority: 0,
};

/// The age column.
pub(in crate::registry) const AGE: Column = column(
    "Age",
    "string",
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to \
     be set in happens-before order across separate operations. Clients may not set this value. It is represented in \
     RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
    0,
);

/// The column of the time of birth, of kinds that Kubernetes prints without columns of their own.
pub(in crate::registry::kinds) const CREATED_AT: Column = column("Created At", "date", AGE.description, 0);

/// The time of birth as it is written.
pub(in crate::registry::kinds) fn created_at(object: &Object) -> Cell {
    text(object.creation_timestamp())
}

/// A text cell.
pub(in crate::registry::kinds) fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

/// A number cell; absent is 0.
pub(in crate::registry::kinds) fn number(object: &Object, path: &[&str]) -> Cell {
    Cell::Int(object.int(path).unwrap_or(0))
}

/// The time since the object was made.
pub(in crate::registry::kinds) fn age(object: &Object, now: i64) -> Cell {
    text(since(object.creation_timestamp(), now))
}

/// The time since a timestamp: `5m`; an absent one is unknown.
pub(in crate::registry) fn since(time: &str, now: i64) -> String {
    match parse_time(time) {
        Some(at) => duration(now - at.as_second()),
        None => UNKNOWN.to_owned(),
    }
}

/// A duration as a person reads it (apimachinery `HumanDuration`).
pub(in crate::registry::kinds) fn duration(seconds: i64) -> String {
    let pair = |big: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(hours / 24, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{}d", hours / 24),
        63_072_000..252_288_000 => pair(hours / 24 / 365, 'y', hours / 24 % 365, 'd'),
        _ => format!("{}y", hours / 24 / 365),
    }
}

/// The row of what runs pods by a template: its name, what it says of itself, its age, the template's containers, and at
/// last the selector of its pods where that is a column.
pub(in crate::registry::kinds) fn workload_row(
    object: &Object,
    own: impl IntoIterator<Item = Cell>,
    now: i64,
    selector: Option<Cell>,
) -> Vec<Cell> {
    let mut cells = vec![text(object.name())];
    cells.extend(own);
    cells.push(age(object, now));
    cells.extend(containers(object));
    cells.extend(selector);
    cells
}

/// Names and images of a template's containers, each joined by commas.
fn containers(object: &Object) -> [Cell; 2] {
    container_cells(object.at(&["spec", "template", "spec"]).unwrap_or(&Value::Null))
}

/// The same of the spec of a pod.
pub(in crate::registry::kinds) fn container_cells(spec: &Value) -> [Cell; 2] {
    let list = spec["containers"].as_array();
    let joined = |key: &str| {
        let words: Vec<_> = list.into_iter().flatten().map(|c| c[key].as_str().unwrap_or_default()).collect();
        text(words.join(","))
    };
    [joined("name"), joined("image")]
}

/// A map of labels in order of key: `a=b,c=d`.
pub(in crate::registry::kinds) fn labels(labels: &Value) -> Cell {
    let mut pairs: Vec<_> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort_unstable();
    match pairs.as_slice() {
        [] => text(NONE),
        pairs => text(pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")),
    }
}

/// A label selector as `kubectl` prints it.
pub(in crate::registry::kinds) fn selector(object: &Object, path: &[&str]) -> Cell {
    let Some(selector) = object.at(path).filter(|s| !s.is_null()) else { return text(NONE) };
    match listwatch_proto::resource::LabelSelector::from_json(selector) {
        Ok(selector) if selector.is_empty() => text(NONE),
        Ok(selector) => text(selector.to_string()),
        Err(_) => text("<error>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_prints_them() {
        let day = 86_400;
        for (seconds, expected) in [
            (0, "0s"),
            (-1, "0s"),
            (-2, "<invalid>"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600, "8h"),
            (2 * day - 1, "47h"),
            (2 * day, "2d"),
            (2 * day + 3600, "2d1h"),
            (8 * day, "8d"),
            (365 * 2 * day, "2y"),
            (365 * 2 * day + day, "2y1d"),
            (365 * 8 * day, "8y"),
        ] {
            assert_eq!(duration(seconds), expected, "{seconds}");
        }
    }
}
