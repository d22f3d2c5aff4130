//! How many pods above and below the wanted number a rolling update may use (Kubernetes 1.36, `ResolveFenceposts`).

use serde_json::Value;

/// Numbers of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fenceposts {
    /// Above the wanted number.
    pub surge: i64,
    /// Below it.
    pub unavailable: i64,
}

/// Percentages of the wanted number; surge is rounded up, unavailable down; both nothing would stand still.
pub fn resolve(surge: &Value, unavailable: &Value, replicas: i64) -> Fenceposts {
    let surge = share(surge, replicas, true);
    let mut unavailable = share(unavailable, replicas, false);
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    Fenceposts { surge, unavailable: unavailable.min(replicas) }
}

/// A number, or a percentage of the wanted number; a quarter if it is missing or is neither.
fn share(value: &Value, replicas: i64, up: bool) -> i64 {
    if let Some(number) = value.as_i64() {
        return number.max(0);
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok()).unwrap_or(25).max(0);
    let hundredths = replicas.saturating_mul(percent);
    if up { hundredths.saturating_add(99) / 100 } else { hundredths / 100 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(replicas: i64, surge: Value, unavailable: Value, max_pods: i64, min_available: i64) {
        let posts = resolve(&surge, &unavailable, replicas);
        let got = (replicas + posts.surge, replicas - posts.unavailable);
        assert_eq!(got, (max_pods, min_available), "{replicas} with {surge} and {unavailable}");
    }

    #[test]
    fn defaults_stand_as_in_kubernetes() {
        let quarter = || json!("25%");
        check(1, quarter(), quarter(), 2, 1);
        check(2, quarter(), quarter(), 3, 2);
        check(3, quarter(), quarter(), 4, 3);
        check(4, quarter(), quarter(), 5, 3);
        check(10, quarter(), quarter(), 13, 8);
        check(100, quarter(), quarter(), 125, 75);
        check(0, quarter(), quarter(), 0, 0);
        check(10, Value::Null, Value::Null, 13, 8);
    }

    #[test]
    fn something_may_always_move() {
        check(5, json!(0), json!(0), 5, 4);
        check(5, json!("0%"), json!("1%"), 5, 4);
        check(1, json!(0), json!(3), 1, 0);
        check(5, json!(2), json!(0), 7, 5);
        check(10, json!("100%"), json!("100%"), 20, 0);
    }
}
