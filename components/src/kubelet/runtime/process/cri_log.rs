//! Container output on disk, in the form that every container runtime writes:
//! `2026-01-02T03:04:05.000000006Z stdout F text`, with `P` for a line that goes on in the next entry.
//!
//! Invariant: files are cut only between entries, and no more than the bound is kept: `log`, then `log.1` (newer) to
//! `log.N`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use jiff::{Timestamp, fmt::temporal::DateTimePrinter};

/// Longest text of one entry; a longer line is cut into parts (containerd's default).
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// Which of the two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Writes one container's log.
#[derive(Debug)]
pub struct LogWriter {
    path: PathBuf,
    file: File,
    size: u64,
    bytes_max: u64,
    files_max: u32,
    pending: [Vec<u8>; 2],
    entries: Vec<u8>,
}

/// One entry of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When it was written, as text.
    pub time: &'a str,
    /// Whether it is standard output.
    pub stdout: bool,
    /// Whether the line ends here.
    pub full: bool,
    /// The output, without the end of line.
    pub text: &'a [u8],
}

impl Stream {
    /// `stdout`, `stderr`.
    pub fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

impl LogWriter {
    /// Opens the log for appending.
    pub fn open(path: &Path, bytes_max: u64, files_max: u32) -> io::Result<Self> {
        let file = append(path)?;
        let size = file.metadata()?.len();
        Ok(LogWriter {
            path: path.to_owned(),
            file,
            size,
            bytes_max: bytes_max.max(1),
            files_max: files_max.max(1),
            pending: [Vec::new(), Vec::new()],
            entries: Vec::new(),
        })
    }

    /// Takes output as it comes; complete lines are written, the rest waits for its end.
    pub fn output(&mut self, stream: Stream, mut bytes: &[u8], now: Timestamp) -> io::Result<()> {
        let time = nanos(now);
        self.entries.clear();
        while let Some(end) = bytes.iter().position(|&b| b == b'\n') {
            let (line, rest) = bytes.split_at(end);
            self.extend(stream, &time, line);
            let text = std::mem::take(&mut self.pending[stream as usize]);
            entry(&mut self.entries, &time, stream, true, &text);
            self.pending[stream as usize] = text;
            self.pending[stream as usize].clear();
            bytes = &rest[1..];
        }
        self.extend(stream, &time, bytes);
        self.write()
    }

    /// The stream has ended: what waits for the end of its line is written as it is.
    pub fn end(&mut self, stream: Stream, now: Timestamp) -> io::Result<()> {
        self.entries.clear();
        let text = std::mem::take(&mut self.pending[stream as usize]);
        if !text.is_empty() {
            entry(&mut self.entries, &nanos(now), stream, true, &text);
        }
        self.write()
    }

    /// Adds to the line that waits, cutting off full parts.
    fn extend(&mut self, stream: Stream, time: &str, mut bytes: &[u8]) {
        loop {
            let pending = &mut self.pending[stream as usize];
            let room = LINE_BYTES_MAX - pending.len();
            if bytes.len() <= room {
                pending.extend_from_slice(bytes);
                return;
            }
            pending.extend_from_slice(&bytes[..room]);
            bytes = &bytes[room..];
            entry(&mut self.entries, time, stream, false, pending);
            pending.clear();
        }
    }

    fn write(&mut self) -> io::Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        if self.size >= self.bytes_max {
            self.rotate()?;
        }
        self.file.write_all(&self.entries)?;
        self.size += self.entries.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let older = |n: u32| rotated(&self.path, n);
        for n in (1..self.files_max).rev() {
            let from = if n == 1 { self.path.clone() } else { older(n - 1) };
            match fs::rename(from, older(n)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.files_max == 1 {
            fs::remove_file(&self.path)?;
        }
        self.file = append(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

/// The files of a log that exist, oldest first, the one being written last.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = (1..).map(|n| rotated(path, n)).take_while(|older| older.exists()).collect();
    files.reverse();
    files.push(path.to_owned());
    files
}

/// Reads one line of a log file; `None` if it is not an entry.
pub fn parse(line: &[u8]) -> Option<Entry<'_>> {
    let mut parts = line.splitn(4, |&b| b == b' ');
    let time = std::str::from_utf8(parts.next()?).ok()?;
    let stream = parts.next()?;
    let tag = parts.next()?;
    let text = parts.next()?;
    if stream != b"stdout" && stream != b"stderr" {
        return None;
    }
    let full = match tag {
        b"F" => true,
        b"P" => false,
        _ => return None,
    };
    Some(Entry { time, stdout: stream == b"stdout", full, text })
}

fn rotated(path: &Path, n: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    PathBuf::from(name)
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

fn nanos(at: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(9)).timestamp_to_string(&at)
}

fn entry(out: &mut Vec<u8>, time: &str, stream: Stream, full: bool, text: &[u8]) {
    out.extend_from_slice(time.as_bytes());
    out.push(b' ');
    out.extend_from_slice(stream.as_str().as_bytes());
    out.extend_from_slice(if full { b" F " } else { b" P " });
    out.extend_from_slice(text);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        "2026-01-02T03:04:05.000000006Z".parse().expect("valid")
    }

    fn writer(dir: &Path, bytes_max: u64, files_max: u32) -> LogWriter {
        LogWriter::open(&dir.join("log"), bytes_max, files_max).expect("writable")
    }

    #[test]
    fn lines_come_whole_however_they_are_read() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut log = writer(dir.path(), 1 << 20, 2);
        for part in ["on", "e\ntwo\nth", "ree"] {
            log.output(Stream::Stdout, part.as_bytes(), at()).expect("written");
        }
        log.output(Stream::Stderr, b"oops\n", at()).expect("written");
        log.end(Stream::Stdout, at()).expect("written");
        let text = fs::read_to_string(dir.path().join("log")).expect("readable");
        let time = "2026-01-02T03:04:05.000000006Z";
        let expected =
            format!("{time} stdout F one\n{time} stdout F two\n{time} stderr F oops\n{time} stdout F three\n");
        assert_eq!(text, expected);
    }

    #[test]
    fn a_long_line_is_cut_into_parts_that_add_up() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut log = writer(dir.path(), 1 << 20, 2);
        let line: Vec<u8> = (0..LINE_BYTES_MAX * 2 + 5).map(|i| b'a' + (i % 26) as u8).collect();
        log.output(Stream::Stdout, &line, at()).expect("written");
        log.output(Stream::Stdout, b"\n", at()).expect("written");
        let file = fs::read(dir.path().join("log")).expect("readable");
        let entries: Vec<_> =
            file.split(|&b| b == b'\n').filter(|l| !l.is_empty()).map(|l| parse(l).expect("an entry")).collect();
        assert_eq!(entries.iter().map(|e| e.full).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(entries.iter().flat_map(|e| e.text.to_vec()).collect::<Vec<_>>(), line);
    }

    #[test]
    fn no_more_is_kept_than_the_bound() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut log = writer(dir.path(), 100, 3);
        for n in 0..40 {
            log.output(Stream::Stdout, format!("line {n}\n").as_bytes(), at()).expect("written");
        }
        let kept = files(&dir.path().join("log"));
        assert_eq!(kept.len(), 3);
        let all: Vec<u8> = kept.iter().flat_map(|path| fs::read(path).expect("readable")).collect();
        let texts: Vec<String> = all
            .split(|&b| b == b'\n')
            .filter(|l| !l.is_empty())
            .map(|l| String::from_utf8_lossy(parse(l).expect("an entry").text).into_owned())
            .collect();
        assert_eq!(texts.last().map(String::as_str), Some("line 39"));
        let first = 40 - texts.len();
        assert!(texts.len() < 40 && texts.iter().enumerate().all(|(i, t)| *t == format!("line {}", first + i)));
    }

    #[test]
    fn what_is_not_an_entry_is_not_taken_for_one() {
        for line in ["", "x", "t stdout F", "t stdin F x", "t stdout Q x"] {
            assert_eq!(parse(line.as_bytes()), None, "{line:?}");
        }
        assert_eq!(parse(b"t stdout F ").map(|e| e.text), Some(&b""[..]));
    }
}
