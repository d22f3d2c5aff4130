//! How many pods of a set may be disrupted, as a PodDisruptionBudget says.

use listwatch_proto::resource::LabelSelector;

use super::Pod;

/// What preemption knows of a PodDisruptionBudget.
#[derive(Debug, Clone)]
pub struct Budget {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `spec.selector`; an empty one selects nothing here.
    pub selector: LabelSelector,
    /// `status.disruptionsAllowed`.
    pub allowed: i64,
}

impl Budget {
    fn covers(&self, pod: &Pod) -> bool {
        self.namespace == pod.key.namespace
            && !pod.labels.is_empty()
            && !self.selector.is_empty()
            && self.selector.matches(|key| pod.label(key))
    }
}

/// Of pods that are to go in this order, which ones go beyond a budget.
pub(super) fn violations<'a>(pods: impl IntoIterator<Item = &'a Pod>, budgets: &[Budget]) -> Vec<bool> {
    let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    let mut goes_beyond = |pod: &Pod| {
        let mut beyond = false;
        for (_, left) in budgets.iter().zip(&mut left).filter(|(budget, _)| budget.covers(pod)) {
            *left -= 1;
            beyond |= *left < 0;
        }
        beyond
    };
    pods.into_iter().map(&mut goes_beyond).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_proto::resource::ObjectKey;

    #[test]
    fn a_budget_is_used_up_in_order() {
        let pod = |namespace: &str, app: &str| Pod {
            key: ObjectKey::new(namespace, "p"),
            labels: if app.is_empty() { Vec::new() } else { vec![("app".into(), app.into())] },
            ..Pod::default()
        };
        let budget = |app: &str, allowed| Budget {
            namespace: "a".to_owned(),
            selector: LabelSelector::of_pairs([("app", app)]),
            allowed,
        };
        let everything = Budget { selector: LabelSelector::of_pairs([]), ..budget("", 0) };
        let pods = [pod("a", "web"), pod("b", "web"), pod("a", "db"), pod("a", "web"), pod("a", ""), pod("a", "db")];
        let beyond = violations(&pods, &[budget("web", 1), budget("db", 0), everything]);
        assert_eq!(beyond, [false, false, true, true, false, true]);
    }
}
