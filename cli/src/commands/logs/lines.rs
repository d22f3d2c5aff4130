//! Cuts a log into lines, and makes of each what is shown.

use jiff::Timestamp;

/// Bytes of a line that are held back until its end comes; what is longer goes out in pieces.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Takes a log in pieces and gives whole lines.
#[derive(Debug)]
pub(super) struct Lines {
    /// `[pod/web-0/app] `, or nothing.
    prefix: String,
    /// Lines begin with their time; what is older is left out.
    since: Option<Timestamp>,
    /// Whether the times are shown.
    timestamps: bool,
    /// Bytes that may still be shown; `None`: any number.
    left: Option<usize>,
    begun: Vec<u8>,
}

impl Lines {
    pub(super) fn new(prefix: String, since: Option<Timestamp>, timestamps: bool, limit: Option<usize>) -> Self {
        Lines { prefix, since, timestamps, left: limit, begun: Vec::new() }
    }

    /// What is to be shown now that this piece has come.
    pub(super) fn take(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") || self.begun.len() >= LINE_BYTES_MAX {
                self.finish_line(&mut out);
            }
        }
        out
    }

    /// What is left at the end of the log: a line without an end.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.begun.is_empty() {
            self.finish_line(&mut out);
        }
        out
    }

    fn finish_line(&mut self, out: &mut Vec<u8>) {
        let line = std::mem::take(&mut self.begun);
        let mut shown = line.as_slice();
        if let Some(since) = self.since {
            let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
            let time =
                std::str::from_utf8(&line[..end]).ok().and_then(|text| text.trim_end().parse::<Timestamp>().ok());
            if time.is_some_and(|time| time < since) {
                return;
            }
            if !self.timestamps && time.is_some() {
                shown = line.get(end + 1..).unwrap_or_default();
            }
        }
        if let Some(left) = &mut self.left {
            shown = &shown[..shown.len().min(*left)];
            *left -= shown.len();
            if shown.is_empty() {
                return;
            }
        }
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(mut lines: Lines, pieces: &[&str]) -> String {
        let mut out: Vec<u8> = pieces.iter().flat_map(|piece| lines.take(piece.as_bytes())).collect();
        out.extend(lines.finish());
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let lines = Lines::new("[pod/p/c] ".to_owned(), None, false, None);
        assert_eq!(shown(lines, &["on", "e\ntwo\nth", "ree"]), "[pod/p/c] one\n[pod/p/c] two\n[pod/p/c] three");
    }

    #[test]
    fn what_is_older_is_left_out() {
        let pieces = ["2026-01-01T00:00:01.5Z old\n2026-01-01T00:00:02Z new\n", "2026-01-01T00:00:03Z \n"];
        let since = "2026-01-01T00:00:02Z".parse().ok();
        assert_eq!(shown(Lines::new(String::new(), since, false, None), &pieces), "new\n\n");
        let with_times = shown(Lines::new(String::new(), since, true, None), &pieces);
        assert_eq!(with_times, "2026-01-01T00:00:02Z new\n2026-01-01T00:00:03Z \n");
        assert_eq!(shown(Lines::new(String::new(), since, false, Some(2)), &pieces), "ne");
    }
}
