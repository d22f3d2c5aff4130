//! Durations as kubectl tells them.

use jiff::Timestamp;
use listwatch_proto::resource::parse_time;

/// `5s`, `3m10s`, `47m`, `5h2m`, `3d`, `2y30d`: two units while that matters, one later (apimachinery's
/// `HumanDuration`).
pub(crate) fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s / MINUTE % 60, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s / HOUR % 24, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s / DAY % 365, "d"),
        s => format!("{}y", s / YEAR),
    }
}

/// How long ago a time was, as text; `<unknown>` if it is none.
pub(crate) fn since(time: &str, now: Timestamp) -> String {
    match parse_time(time) {
        Some(at) => human_duration(now.as_second() - at.as_second()),
        None => "<unknown>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_kubectl_tells_them() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (601, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 120, "3h2m"),
            (47 * 3600, "47h"),
            (50 * 3600, "2d2h"),
            (9 * 86400, "9d"),
            (800 * 86400, "2y70d"),
        ] {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
