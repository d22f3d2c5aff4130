//! PodTemplate: a pod to be made, by itself.

use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::print::{NAME, column, container_cells, labels, text};
use crate::registry::table::{Cell, Column};

pub(super) struct PodTemplateStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column("Containers", "string", "Names of each container in the template.", 0),
    column("Images", "string", "Images referenced by each container in the template.", 0),
    column("Pod Labels", "string", "The labels for the pod template.", 0),
];

impl Strategy for PodTemplateStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.PodTemplate"
    }

    fn default(&self, object: &mut Object) {
        template::defaults::template(object.at_mut(&["template"]));
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        template::defaults::drop_disabled(object.at_mut(&["template", "spec"]));
        Ok(())
    }

    fn prepare_update(&self, _part: Part, new: &mut Object, old: &Object) {
        template::defaults::drop_disabled(new.at_mut(&["template", "spec"]));
        // What is counted is the template, which stands beside where other kinds have their spec.
        if new.at(&["template"]) != old.at(&["template"]) {
            new.set(&["metadata", "generation"], old.generation() + 1);
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        template::whole::pod_template(template(object), &Path::new("template"), faults);
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        template::warnings::template_at(template(object), "template.")
    }

    fn update_warnings(&self, _part: Part, new: &Object, old: &Object) -> Vec<String> {
        if new.generation() == old.generation() { Vec::new() } else { self.warnings(new) }
    }

    fn habits(&self) -> Habits {
        Habits { tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, _now: i64) -> Vec<Cell> {
        let [names, images] = container_cells(&template(object)["spec"]);
        vec![text(object.name()), names, images, labels(&template(object)["metadata"]["labels"])]
    }
}

fn template(object: &Object) -> &Value {
    object.at(&["template"]).unwrap_or(&Value::Null)
}
