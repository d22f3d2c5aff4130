//! Where the last lines of a log begin: read from its end, so that the cost follows the lines asked for.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::PathBuf,
};

/// How much is read at once.
const CHUNK_BYTES: u64 = 16 * 1024;

/// The files from which to read, oldest first, and where to begin in the first of them. `None` of lines means all.
pub(super) fn start(files: Vec<PathBuf>, lines: Option<u64>) -> io::Result<(Vec<PathBuf>, u64)> {
    let Some(mut wanted) = lines else { return Ok((files, 0)) };
    for (index, path) in files.iter().enumerate().rev() {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if let Some(offset) = last_lines(&mut file, &mut wanted)? {
            return Ok((files[index..].to_vec(), offset));
        }
    }
    Ok((files, 0))
}

/// Where the last `wanted` lines of a file begin; `None` if it has fewer, and `wanted` is then what is still missing.
fn last_lines(file: &mut File, wanted: &mut u64) -> io::Result<Option<u64>> {
    let mut end = file.metadata()?.len();
    // A line that is still being written counts with the next one.
    let mut lines = 0;
    while end > 0 {
        let begin = end.saturating_sub(CHUNK_BYTES);
        let mut chunk = vec![0; usize::try_from(end - begin).unwrap_or(0)];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut chunk)?;
        for (at, _) in chunk.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            if lines == *wanted {
                return Ok(Some(begin + at as u64 + 1));
            }
            lines += 1;
        }
        end = begin;
    }
    *wanted = wanted.saturating_sub(lines);
    Ok((*wanted == 0 && lines > 0).then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn check(files: &[&str], lines: Option<u64>, expected: &str) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let paths: Vec<_> = files
            .iter()
            .enumerate()
            .map(|(number, text)| {
                let path = dir.path().join(number.to_string());
                fs::write(&path, text).expect("written");
                path
            })
            .collect();
        let (rest, offset) = start(paths, lines).expect("readable");
        let text: String = rest.iter().map(|path| fs::read_to_string(path).expect("readable")).collect();
        assert_eq!(&text[usize::try_from(offset).expect("small")..], expected, "{files:?} {lines:?}");
    }

    #[test]
    fn the_last_lines_are_found_over_the_borders_of_files() {
        let files = ["1\n2\n3\n", "4\n5\n", ""];
        check(&files, None, "1\n2\n3\n4\n5\n");
        check(&files, Some(9), "1\n2\n3\n4\n5\n");
        check(&files, Some(5), "1\n2\n3\n4\n5\n");
        check(&files, Some(3), "3\n4\n5\n");
        check(&files, Some(2), "4\n5\n");
        check(&files, Some(1), "5\n");
        check(&["1\n2\n"], Some(0), "");
    }

    #[test]
    fn lines_longer_than_a_chunk_are_found_too() {
        let long = "x".repeat(40_000);
        let text = format!("a\n{long}\nb\n");
        check(&[&text], Some(2), &format!("{long}\nb\n"));
        check(&[&text], Some(1), "b\n");
    }
}
