//! Timestamps as Kubernetes writes them.

use jiff::{Timestamp, fmt::temporal::DateTimePrinter};

/// `metav1.Time`: whole seconds, `2026-01-02T03:04:05Z`.
pub fn time(at: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(0)).timestamp_to_string(&floor(at))
}

/// `metav1.MicroTime`: `2026-01-02T03:04:05.000006Z`.
pub fn micro_time(at: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(6)).timestamp_to_string(&at)
}

/// Reads either form; `None` if it is neither.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// The printer rounds; a timestamp must never lie in the future of its event.
fn floor(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_read_back() {
        let at: Timestamp = "2026-01-02T03:04:05.999999Z".parse().expect("valid");
        assert_eq!(time(at), "2026-01-02T03:04:05Z");
        assert_eq!(micro_time(at), "2026-01-02T03:04:05.999999Z");
        assert_eq!(parse_time(&micro_time(at)), Some(at));
        assert_eq!(parse_time("yesterday"), None);
    }
}
