//! What a container has to say of its end: the file at its `terminationMessagePath`, else the last of its log
//! (Kubernetes 1.36).

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use super::{
    cri_log,
    layout::AttemptDir,
    record::{Exit, Spec},
};

/// The longest message, in bytes; of a longer one the end counts.
const MESSAGE_BYTES_MAX: u64 = 4096;

/// How much of the log takes the place of a message, in bytes.
const LOG_BYTES_MAX: usize = 2048;

/// How much of the log takes the place of a message, in lines.
const LOG_LINES_MAX: usize = 80;

/// How much of a log's file is looked at for that: more than enough for entries of that many bytes and lines.
const LOG_READ_MAX: u64 = 64 * 1024;

/// The message of a run that has ended so: the runtime's own, then the container's.
pub(super) fn message(dir: &AttemptDir, spec: &Spec, exit: &Exit) -> String {
    let said = spec.termination.as_ref().map(|termination| {
        let said = tail(&dir.termination_log(), MESSAGE_BYTES_MAX).unwrap_or_default();
        if said.is_empty() && termination.or_log && exit.code != 0 {
            end_of_log(&tail(&dir.log(), LOG_READ_MAX).unwrap_or_default())
        } else {
            String::from_utf8_lossy(&said).into_owned()
        }
    });
    let parts = [exit.message.clone(), said.unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

/// The end of a file; empty if there is none.
fn tail(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(bytes)))?;
    let mut end = Vec::new();
    file.take(bytes).read_to_end(&mut end)?;
    Ok(end)
}

fn end_of_log(file: &[u8]) -> String {
    let lines: Vec<_> = file.split(|&byte| byte == b'\n').collect();
    let mut text = Vec::new();
    for line in &lines[lines.len().saturating_sub(LOG_LINES_MAX + 1)..] {
        let Some(entry) = cri_log::parse(line) else { continue };
        text.extend_from_slice(entry.text);
        if entry.full {
            text.push(b'\n');
        }
    }
    String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_BYTES_MAX)..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_log_are_taken() {
        let entries: String = (0..100).map(|n| format!("2026-01-01T00:00:00Z stderr F line {n}\n")).collect();
        let message = end_of_log(entries.as_bytes());
        assert!(message.starts_with("line 20\n") && message.ends_with("line 99\n"), "{message}");
        let long = format!("2026-01-01T00:00:00Z stderr F {}\n", "x".repeat(5000));
        assert_eq!(end_of_log(long.as_bytes()).len(), LOG_BYTES_MAX);
    }
}
