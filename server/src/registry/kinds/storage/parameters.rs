//! What classes of storage say to the driver (Kubernetes 1.36, `storage/validation`).

use serde_json::Value;

use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::entries;
use crate::registry::kinds::vocabulary::names;

/// Parameters, at most.
const COUNT_MAX: usize = 512;
/// Bytes of all parameters together.
const BYTES_MAX: usize = 256 << 10;

/// The driver's name.
pub(super) fn driver(name: &str, path: &Path, faults: &mut Faults) {
    if name.is_empty() {
        faults.required(path, "");
    } else {
        let lower = name.to_lowercase();
        faults.invalid_all(path, &lower, names::qualified(&lower));
    }
}

/// What it is told.
pub(super) fn validate(parameters: Option<&Value>, may_be_empty: bool, faults: &mut Faults) {
    let path = Path::new("parameters");
    let parameters = parameters.unwrap_or(&Value::Null);
    let count = entries(parameters).count();
    if count > COUNT_MAX {
        faults.too_long(&path, COUNT_MAX);
        return;
    }
    let mut bytes = 0;
    for (key, value) in entries(parameters) {
        if key.is_empty() {
            faults.invalid(&path, "", "field can not be empty.");
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > BYTES_MAX {
        faults.too_long(&path, BYTES_MAX);
    }
    if !may_be_empty && count == 0 {
        faults.required(&path, "must contain at least one key/value pair");
    }
}
