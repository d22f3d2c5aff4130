//! DeviceClass: a kind of device that claims can ask for.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::claim_spec;
use crate::registry::kinds::strategy::{Habits, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::items;
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, text};
use crate::registry::table::{Cell, Column};

pub(super) struct DeviceClassStrategy;

const COLUMNS: &[Column] = &[NAME, AGE];
/// Configurations, at most.
const CONFIGURATIONS_MAX: usize = 32;

impl Strategy for DeviceClassStrategy {
    fn schema(&self) -> &'static str {
        "resource/v1.DeviceClass"
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        claim_spec::selectors(items(spec, "selectors"), &path.child("selectors"), faults);
        let at = path.child("config");
        claim_spec::list(items(spec, "config"), CONFIGURATIONS_MAX, &at, faults, claim_spec::configuration);
        if let Some(name) = spec["extendedResourceName"].as_str() {
            let extended = name.contains('/')
                && !name.contains("kubernetes.io/")
                && !name.starts_with("requests.")
                && names::qualified(&format!("requests.{name}")).is_empty();
            if !extended {
                let at = path.child("extendedResourceName");
                faults.invalid(&at, name, "must be a valid extended resource name");
            }
        }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), age(object, now)]
    }
}
