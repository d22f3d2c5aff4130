//! Cron schedules, as robfig/cron v3 reads them: five fields or a descriptor. Only whether a schedule is one is asked
//! here; when it fires is the controller's business.

use listwatch_proto::go_quote::{quote, quote_in_time};

/// The least and the greatest value of a field, and the names of its values.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
    /// The value of the first name.
    first: u64,
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[], first: 0 },
    Bounds { min: 0, max: 23, names: &[], first: 0 },
    Bounds { min: 1, max: 31, names: &[], first: 0 },
    Bounds { min: 1, max: 12, names: MONTHS, first: 1 },
    Bounds { min: 0, max: 6, names: DAYS, first: 0 },
];

const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Checks a schedule. `is_zone` says whether there is a time zone of a name.
///
/// # Errors
/// Why it is none, in upstream's words.
pub(super) fn check(schedule: &str, is_zone: impl Fn(&str) -> bool) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let Some((zone, behind)) = schedule.split_once(' ') else {
            // Upstream's parser panics here, and its caller catches that.
            return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
        };
        let zone = zone.split_once('=').map_or(zone, |(_, name)| name);
        if !is_zone(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        rest = behind.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    fields.iter().zip(&FIELDS).try_for_each(|(field, bounds)| check_field(field, bounds))
}

fn check_field(field: &str, bounds: &Bounds) -> Result<(), String> {
    field.split(',').filter(|part| !part.is_empty()).try_for_each(|part| check_range(part, bounds))
}

fn check_range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let halves: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = halves[0].split('-').collect();
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        (bounds.min, bounds.max)
    } else {
        let start = number_or_name(ends[0], bounds)?;
        match ends.len() {
            1 => (start, start),
            2 => (start, number_or_name(ends[1], bounds)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match halves.len() {
        1 => 1,
        2 => {
            let step = number(halves[1])?;
            if ends.len() == 1 {
                end = bounds.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < bounds.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.min));
    }
    if end > bounds.max {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(at) => Ok(bounds.first + at as u64),
        None => number(text),
    }
}

/// Go's `strconv.Atoi`, without negative numbers.
fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let failed = |why: &str| {
        Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text_quoted}: {why}",
            text_quoted = quote(&text)
        ))
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return failed("invalid syntax");
    }
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number.unsigned_abs()),
        Err(_) => failed("value out of range"),
    }
}

fn descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(duration) => {
            check_duration(duration).map_err(|why| format!("failed to parse duration {text}: time: {why}"))
        }
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// Go's `time.ParseDuration`: `1h30m`, `-1.5h`, `0`.
fn check_duration(text: &str) -> Result<(), String> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    /// Seconds that fit into 64 bits of nanoseconds.
    const SECONDS_MAX: f64 = 9_223_372_036.854_776;
    let invalid = || format!("invalid duration {}", quote_in_time(text));
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (amount, behind) = rest.split_at(end);
        let dots = amount.bytes().filter(|b| *b == b'.').count();
        // A second dot begins what should have been a unit.
        if amount.trim_matches('.').is_empty() || (dots > 1) {
            return Err(invalid());
        }
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        if unit.is_empty() {
            return Err(format!("missing unit in duration {}", quote_in_time(text)));
        }
        let Some((_, seconds)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!(
                "unknown unit {unit} in duration {text}",
                unit = quote_in_time(unit),
                text = quote_in_time(text)
            ));
        };
        total += amount.parse::<f64>().map_err(|_| invalid())? * seconds;
        rest = behind;
    }
    if total > SECONDS_MAX { Err(invalid()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(schedule: &str) -> String {
        check(schedule, |zone| zone == "UTC").err().unwrap_or_default()
    }

    #[test]
    fn schedules_are_taken_as_robfig_takes_them() {
        for schedule in [
            "* * * * *",
            "*/5 0-23/2 1,15 JAN-dec ?",
            "0 0 * * sun",
            "5/10 * * * *",
            "@hourly",
            "@every 1h30m",
            "@every 1.5s",
            "@every 0",
            "TZ=UTC 0 0 * * *",
            "CRON_TZ=UTC @daily",
            ", * * * *",
        ] {
            assert_eq!(told(schedule), "", "{schedule}");
        }
    }

    #[test]
    fn others_are_refused_in_its_words() {
        for (schedule, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("*/2/3 * * * *", "too many slashes: */2/3"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
            ("@foo", "unrecognized descriptor: @foo"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
            ("@every 5d", "failed to parse duration @every 5d: time: unknown unit \"d\" in duration \"5d\""),
            ("TZ=Foo * * * * *", "provided bad location Foo: unknown time zone Foo"),
            ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ] {
            assert_eq!(told(schedule), why, "{schedule}");
        }
    }
}
