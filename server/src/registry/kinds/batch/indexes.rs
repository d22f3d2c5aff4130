//! Lists of indexes as a job writes them: `1,3-5,7`.

use listwatch_proto::go_quote::quote;

/// How many indexes a list names; all must be below `completions`, in order.
///
/// # Errors
/// Why it is no such list, in upstream's words.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut last, mut total) = (None, 0);
    for part in text.split(',') {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let parts: Vec<&str> = text.split('-').collect();
    if parts.len() > 2 {
        return Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated \
             by '-'",
            quote(&text)
        ));
    }
    let read = |part: &str| {
        let index =
            part.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {}", quote(&part)))?;
        if index >= completions { Err(format!("too large index: {}", quote(&part))) } else { Ok(index) }
    };
    let first = read(parts[0])?;
    let Some(end) = parts.get(1) else { return Ok((first, first)) };
    let end = read(end)?;
    if first >= end {
        return Err(format!("non-increasing order, previous: {first}, current: {end}"));
    }
    Ok((first, end))
}

/// The first index that two lists have in common. What is no interval is passed over.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    if completed.is_empty() || failed.is_empty() {
        return None;
    }
    let read = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (read(completed), read(failed));
    let (mut c, mut f) = (0, 0);
    while let (Some((c_first, c_end)), Some((f_first, f_end))) = (completed.get(c), failed.get(f)) {
        if c_first <= f_end && f_first <= c_end {
            return Some(*c_first.max(f_first));
        }
        if c_first <= f_first { c += 1 } else { f += 1 }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted_or_refused() {
        assert_eq!(count("", 5), Ok(0));
        assert_eq!(count("1,3-4", 5), Ok(3));
        for (text, why) in [
            ("a", "cannot convert string to integer for index: \"a\""),
            ("5", "too large index: \"5\""),
            (
                "1-2-3",
                "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
            ),
            ("3-1", "non-increasing order, previous: 3, current: 1"),
            ("2,1", "non-increasing order, previous: 2, current: 1"),
        ] {
            assert_eq!(count(text, 5), Err(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn an_index_is_completed_or_failed() {
        assert_eq!(overlap("1-3,7", "4-6,8", 10), None);
        assert_eq!(overlap("1-3,7", "5-7", 10), Some(7));
        assert_eq!(overlap("x,2", "2", 10), Some(2));
    }
}
