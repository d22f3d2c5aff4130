//! Fields that an apply would take from others, and how it is refused.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Cause, Reason, Status};

use super::element;
use super::managers::{Manager, Operation};
use super::set::FieldSet;

/// One field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) manager: Manager,
    pub(super) path: Vec<String>,
}

/// All of them, by manager.
pub(super) fn conflicts(mut sets: Vec<(Manager, FieldSet)>) -> Vec<Conflict> {
    let key = |m: &Manager| (m.name.clone(), m.operation, m.api_version.clone(), m.subresource.clone());
    sets.sort_by_key(|(manager, _)| key(manager));
    let each = sets.into_iter().flat_map(|(manager, set)| {
        set.paths().into_iter().map(move |path| Conflict { manager: manager.clone(), path })
    });
    each.collect()
}

/// 409.
pub(super) fn refuse(conflicts: &[Conflict]) -> Status {
    let causes = conflicts.iter().map(|conflict| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", shown(&conflict.manager)),
        field: text(&conflict.path),
    });
    let message = match conflicts {
        [one] => {
            format!("Apply failed with 1 conflict: conflict with {}: {}", shown(&one.manager), text(&one.path))
        }
        several => {
            let mut lines: Vec<String> = Vec::new();
            let mut of: Option<&Manager> = None;
            for conflict in several {
                if of != Some(&conflict.manager) {
                    lines.push(format!("conflicts with {}:", shown(&conflict.manager)));
                    of = Some(&conflict.manager);
                }
                lines.push(format!("- {}", text(&conflict.path)));
            }
            format!("Apply failed with {} conflicts: {}", several.len(), lines.join("\n"))
        }
    };
    let mut status = Status::new(Reason::Conflict, message);
    status.causes = causes.collect();
    status
}

fn text(path: &[String]) -> String {
    path.iter().map(|step| element::shown(step)).collect()
}

fn shown(manager: &Manager) -> String {
    let mut text = quote(&manager.name);
    if !manager.subresource.is_empty() {
        text.push_str(&format!(" with subresource {}", quote(&manager.subresource)));
    }
    if manager.operation == Operation::Update {
        text.push_str(&format!(" using {}", manager.api_version));
    }
    text
}
