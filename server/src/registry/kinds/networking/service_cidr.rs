//! ServiceCIDR (networking.k8s.io): a range from which services get their addresses.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Habits, Part, Reset, STATUS_ALONE, Strategy, keep};
use crate::registry::kinds::vocabulary::addresses;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct ServiceCIDRStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "CIDRs",
        "string",
        "CIDRs defines the IP blocks in CIDR notation (e.g. \"192.168.0.0/24\" or \"2001:db8::/64\") from which to assign \
         service cluster IPs. Max of two CIDRs is allowed, one of each IP family. This field is immutable.",
        0,
    ),
    AGE,
];

impl Strategy for ServiceCIDRStrategy {
    fn schema(&self) -> &'static str {
        "networking/v1.ServiceCIDR"
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".to_owned(), json!({}));
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        match part {
            Part::Status => {
                keep(new, old, &["spec"]);
                // Of the metadata, a write of the status changes nothing.
                for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
                    match old.at(&["metadata", key]) {
                        Some(value) => new.set(&["metadata", key], value.clone()),
                        None => drop(new.remove(&["metadata", key])),
                    }
                }
            }
            _ => keep(new, old, &["status"]),
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let (path, cidrs) = (Path::new("spec.cidrs"), cidrs(object));
        if cidrs.is_empty() {
            faults.required(&path, "at least one CIDR required");
            return;
        }
        if cidrs.len() > 2 {
            let shown = format!("{{\"CIDRs\":{}}}", Value::from(cidrs.clone()));
            faults.invalid(&path, Shown(shown), "may only hold up to 2 values");
            return;
        }
        for (i, cidr) in cidrs.iter().enumerate() {
            addresses::canonical_range(cidr, &path.index(i), faults);
        }
        let family = |cidr: &str| addresses::family(cidr.split('/').next().unwrap_or_default());
        if let [one, two] = cidrs[..]
            && addresses::is_range(one)
            && addresses::is_range(two)
            && family(one) == family(two)
        {
            let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            faults.invalid(&path, Shown(Value::from(cidrs.clone()).to_string()), why);
        }
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            return;
        }
        const WHY: &str = "field is immutable";
        let (path, was, is) = (Path::new("spec.cidrs"), cidrs(old), cidrs(new));
        if was.len() == is.len() {
            for (i, (_, is)) in was.iter().zip(&is).enumerate().filter(|(_, (was, is))| was != is) {
                faults.invalid(&path.index(i), *is, WHY);
            }
        } else if was.len() == 1 && is.len() == 2 {
            // A second family may come in.
            if was[0] != is[0] {
                faults.invalid(&path.index(0), is[0], WHY);
            }
            self.validate_create(new, faults);
        } else {
            let shown = if is.is_empty() { "null".to_owned() } else { Value::from(is).to_string() };
            faults.invalid(&path, Shown(shown), WHY);
        }
    }

    fn reset_fields(&self, part: Part) -> Reset {
        if part == Part::Status { STATUS_ALONE } else { Reset::These(&[&["status"]]) }
    }

    fn habits(&self) -> Habits {
        Habits { has_generation: false, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), text(cidrs(object).join(",")), age(object, now)]
    }
}

fn cidrs(object: &Object) -> Vec<&str> {
    let list = object.at(&["spec", "cidrs"]).and_then(Value::as_array);
    list.into_iter().flatten().map(|cidr| cidr.as_str().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(new: &[&str], old: Option<&[&str]>) -> Vec<String> {
        let of = |cidrs: &[&str]| Object::from_value(json!({"spec": {"cidrs": cidrs}})).expect("a map");
        let mut faults = Faults::new();
        match old {
            None => ServiceCIDRStrategy.validate_create(&of(new), &mut faults),
            Some(old) => ServiceCIDRStrategy.validate_update(Part::Main, &of(new), &of(old), &mut faults),
        }
        faults.told()
    }

    #[test]
    fn there_is_a_range_of_each_family_at_most() {
        assert!(told(&["10.0.0.0/16", "fd00::/112"], None).is_empty());
        assert_eq!(told(&[], None), ["spec.cidrs: Required value: at least one CIDR required"]);
        assert_eq!(
            told(&["10.0.0.0/16", "10.1.0.0/16"], None),
            [
                "spec.cidrs: Invalid value: [\"10.0.0.0/16\",\"10.1.0.0/16\"]: may specify no more than one IP for each IP \
              family, i.e 192.168.0.0/24 and 2001:db8::/64"
            ]
        );
        assert_eq!(
            told(&["10.0.0.1/16"], None),
            ["spec.cidrs[0]: Invalid value: \"10.0.0.1/16\": must not have bits set beyond the prefix length"]
        );
    }

    #[test]
    fn a_range_stays_and_the_other_family_may_come_in() {
        assert!(told(&["10.0.0.0/16", "fd00::/112"], Some(&["10.0.0.0/16"])).is_empty());
        let why = "field is immutable";
        assert_eq!(
            told(&["10.1.0.0/16"], Some(&["10.0.0.0/16"])),
            [format!("spec.cidrs[0]: Invalid value: \"10.1.0.0/16\": {why}")]
        );
        assert_eq!(told(&[], Some(&["10.0.0.0/16"])), [format!("spec.cidrs: Invalid value: null: {why}")]);
    }
}
