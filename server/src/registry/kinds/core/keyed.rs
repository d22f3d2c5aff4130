//! What ConfigMap and Secret share: values under keys, so many bytes of them, that may be there for good.

use listwatch_proto::resource::Object;

use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::names;

/// Bytes of all values together (Kubernetes 1.36).
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Judges a key of the map in this field, and says where its value stands.
pub(super) fn key(field: &str, key: &str, faults: &mut Faults) -> Path {
    let path = Path::new(field).key(key);
    faults.invalid_all(&path, key, names::config_key(key));
    path
}

/// Judges the bytes of all values together.
pub(super) fn size(bytes: usize, path: &Path, faults: &mut Faults) {
    if bytes > BYTES_MAX {
        faults.too_long(path, BYTES_MAX);
    }
}

/// What was said to be immutable stays so, and these fields stay as they are.
pub(super) fn immutable(new: &Object, old: &Object, fields: &[&str], faults: &mut Faults) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if !old.flag(&["immutable"]) {
        return;
    }
    if !new.flag(&["immutable"]) {
        faults.forbidden(&Path::new("immutable"), WHY);
    }
    let part = |object: &Object, field: &str| object.at(&[field]).filter(|value| !value.is_null()).cloned();
    for field in fields.iter().filter(|field| part(new, field) != part(old, field)) {
        faults.forbidden(&Path::new(field), WHY);
    }
}
