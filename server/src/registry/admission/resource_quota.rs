//! A namespace uses no more than its quotas allow (upstream's ResourceQuota plugin, Kubernetes 1.36).
//!
//! Invariant: what a write uses is added to the quotas in the commit of the write itself, under a guard that they still
//! are as they were judged, so that no number of writers together gets beyond a quota.

use listwatch_proto::resource::{Kind, Object, Quantity, Resources, Status, quota};
use serde_json::{Map, Value};

use super::super::current::{Beside, Current};
use super::super::kinds::Part;
use super::super::stored::encode;
use super::super::{Registry, Write};
use crate::storage::KeyRange;

/// A write as the quotas see it.
pub(super) struct Use<'a> {
    /// Of what kind.
    pub(super) kind: &'static Kind,
    /// Which part is written.
    pub(super) part: Part,
    /// The object as it will be.
    pub(super) new: &'a Object,
    /// As it is.
    pub(super) old: Option<&'a Object>,
}

impl Registry {
    /// What the quotas of the namespace are to be written as, beside the object.
    pub(super) async fn charge(&self, wanted: &Use<'_>) -> Result<Beside, Status> {
        let mut beside = Beside::default();
        if !wanted.concerns_quotas() {
            return Ok(beside);
        }
        let quotas = Kind::by_api_version("v1", "ResourceQuota").expect("ResourceQuota is a served kind");
        let range = KeyRange::prefix(quotas.collection_key(wanted.new.namespace()));
        for kv in self.shared.store.range(&range, 0, 0).await?.kvs {
            // A value that is no object is no quota; whoever asks for it by name is told so.
            let Ok(current) = Current::of(kv) else { continue };
            let charged = wanted
                .charge(&current.object, self.now())
                .map_err(|why| Status::forbidden(wanted.kind, wanted.new.name(), &why))?;
            if let Some(charged) = charged {
                beside.guards.push(current.guard());
                beside.writes.push(Write::Put { key: current.key, value: encode(&charged), lease: 0 });
            }
        }
        Ok(beside)
    }
}

impl Use<'_> {
    /// Whether this kind of write can use more than before.
    fn concerns_quotas(&self) -> bool {
        if !quota::is_counted(self.kind) {
            return false;
        }
        let Some(old) = self.old else { return true };
        match (self.kind.group, self.kind.plural) {
            ("", "pods") => match self.part {
                Part::Main => quota::is_limited_in_time(old) != quota::is_limited_in_time(self.new),
                part => part == Part::Resize,
            },
            ("", "services") => self.part == Part::Main,
            ("", "persistentvolumeclaims") => true,
            _ => false,
        }
    }

    /// The quota with what the write uses added to it; `None`: nothing is. Else why it must not be.
    fn charge(&self, own: &Object, now: jiff::Timestamp) -> Result<Option<Object>, String> {
        let hard = quota::amounts(own.at(&["status", "hard"]));
        let used = quota::amounts(own.at(&["status", "used"]));
        let counted: Vec<&str> =
            hard.keys().map(String::as_str).filter(|name| quota::counts(self.kind, name)).collect();
        if counted.is_empty() || !quota::in_scopes(own, self.kind, self.new) {
            return Ok(None);
        }
        if (self.kind.group, self.kind.plural) == ("", "pods")
            && let Some(missing) = quota::missing(self.new, counted.iter().copied())
        {
            return Err(format!("failed quota: {}: {missing}", own.name()));
        }
        if counted.iter().any(|name| !used.contains_key(*name)) {
            return Err(format!("status unknown for quota: {}, resources: {}", own.name(), counted.join(",")));
        }
        let wanted = self.more(own, now);
        let wanted: Resources =
            wanted.into_iter().filter(|(name, amount)| hard.contains_key(name) && !amount.is_zero()).collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let mut after = used.clone();
        for (name, amount) in &wanted {
            *after.entry(name.clone()).or_insert(Quantity::ZERO) += *amount;
        }
        let exceeded: Vec<&String> = wanted.keys().filter(|name| after[*name] > hard[*name]).collect();
        if self.part != Part::Status && !exceeded.is_empty() {
            let shown = |list: &Resources| {
                let shown: Vec<String> = exceeded
                    .iter()
                    .map(|name| format!("{name}={}", list.get(*name).copied().unwrap_or(Quantity::ZERO)))
                    .collect();
                shown.join(",")
            };
            return Err(format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                own.name(),
                shown(&wanted),
                shown(&used),
                shown(&hard)
            ));
        }
        let mut charged = own.clone();
        let after: Map<String, Value> =
            after.into_iter().map(|(name, amount)| (name, amount.to_string().into())).collect();
        charged.set(&["status", "used"], after);
        Ok(Some(charged))
    }

    /// What the write uses beyond what was used before.
    fn more(&self, own: &Object, now: jiff::Timestamp) -> Resources {
        let mut wanted = quota::usage(self.kind, self.new, now);
        if let Some(old) = self.old.filter(|old| quota::in_scopes(own, self.kind, old)) {
            let before = quota::usage(self.kind, old, now);
            for (name, amount) in &mut wanted {
                let held = before.get(name).copied().unwrap_or(Quantity::ZERO);
                *amount = if held < *amount { *amount - held } else { Quantity::ZERO };
            }
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    fn pod(cpu: &str) -> Object {
        object(json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}))
    }

    fn quota(hard: Value, used: Value) -> Object {
        object(json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}}))
    }

    fn charge(kind: &str, new: &Object, old: Option<&Object>, own: &Object) -> Result<Option<Value>, String> {
        let kind = Kind::by_name(kind).expect(kind);
        let wanted = Use { kind, part: Part::Main, new, old };
        let charged = wanted.charge(own, jiff::Timestamp::UNIX_EPOCH)?;
        Ok(charged.map(|charged| charged.at(&["status", "used"]).cloned().unwrap_or_default()))
    }

    #[test]
    fn what_is_used_is_added_and_never_beyond() {
        let own = quota(json!({"pods": "1", "requests.cpu": "1"}), json!({"pods": "0", "requests.cpu": "0"}));
        assert_eq!(charge("pod", &pod("500m"), None, &own), Ok(Some(json!({"pods": "1", "requests.cpu": "500m"}))));
        assert_eq!(
            charge("pod", &pod("2"), None, &own),
            Err("exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1"
                .to_owned())
        );
        let bare = object(json!({"spec": {"containers": [{"name": "c"}]}}));
        assert_eq!(
            charge("pod", &bare, None, &own),
            Err("failed quota: q: must specify requests.cpu for: c".to_owned())
        );
        let unknown = quota(json!({"pods": "1"}), json!({}));
        assert_eq!(
            charge("pod", &pod("1"), None, &unknown),
            Err("status unknown for quota: q, resources: pods".to_owned())
        );
        assert_eq!(charge("configmap", &object(json!({})), None, &own), Ok(None));
    }

    #[test]
    fn a_change_is_charged_for_its_growth() {
        let service = |ports: usize| {
            let ports: Vec<Value> = (0..ports).map(|port| json!({"port": port})).collect();
            object(json!({"spec": {"type": "NodePort", "ports": ports}}))
        };
        let own = quota(json!({"services.nodeports": "2"}), json!({"services.nodeports": "1"}));
        assert_eq!(
            charge("service", &service(2), Some(&service(1)), &own),
            Ok(Some(json!({"services.nodeports": "2"})))
        );
        assert_eq!(charge("service", &service(1), Some(&service(2)), &own), Ok(None));
        assert!(charge("service", &service(3), Some(&service(1)), &own).is_err());
    }
}
