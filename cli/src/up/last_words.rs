//! What a process said before it ended: the end of its log.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

/// So much of a log is looked at; an error of ours is far shorter.
const TAIL_BYTES: u64 = 8 << 10;
/// So many lines are told.
const LINES_MAX: usize = 4;

/// The last error in the part of a log that begins at `from`, or its last lines if there is none; empty if the process
/// said nothing.
pub(crate) fn last_words(log: &Path, from: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(end.saturating_sub(TAIL_BYTES))))?;
        let mut tail = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut tail)?;
        Ok(tail)
    };
    read().map_or_else(|_| String::new(), |tail| last_error(&String::from_utf8_lossy(&tail)))
}

/// The last error that `main` printed, or the last lines.
pub(crate) fn last_error(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let error = lines.iter().rposition(|line| line.starts_with("error: "));
    let first = error.unwrap_or(lines.len().saturating_sub(LINES_MAX));
    let told: Vec<_> = lines[first..].iter().take(LINES_MAX).copied().collect();
    told.join("\n").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_told_else_the_last_lines() {
        assert_eq!(last_error("INFO a\nerror: old\nINFO b\nerror: new: no\n"), "new: no");
        assert_eq!(last_error("error: wrong\n\n  tip: x\n"), "wrong\n  tip: x");
        assert_eq!(last_error("1\n2\n3\n4\n5\n"), "2\n3\n4\n5");
        assert_eq!(last_error(""), "");
    }

    #[test]
    fn what_an_earlier_run_said_is_not_told() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("x.log");
        let old = format!("{}\nerror: old\n", "x".repeat(10_000));
        std::fs::write(&log, &old).expect("written");
        assert_eq!(last_words(&log, old.len() as u64), "");
        std::fs::write(&log, format!("{old}error: new\n")).expect("written");
        assert_eq!(last_words(&log, old.len() as u64), "new");
        assert_eq!(last_words(&folder.path().join("none"), 0), "");
    }
}
