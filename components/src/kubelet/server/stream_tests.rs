//! Tests of [`super`]: logs that grow, turn and end while they are read.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::*;
use cri_log::{LogWriter, Stream};

const LIMIT: Duration = Duration::from_secs(20);

struct Log {
    dir: tempfile::TempDir,
    writer: LogWriter,
    ended: Arc<AtomicBool>,
    changes: watch::Sender<u64>,
}

impl Log {
    fn new(bytes_max: u64) -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let writer = LogWriter::open(&dir.path().join("log"), bytes_max, 5).expect("writable");
        Log { dir, writer, ended: Arc::default(), changes: watch::Sender::new(0) }
    }

    fn write(&mut self, second: i64, text: &str) {
        self.writer.output(Stream::Stdout, text.as_bytes(), at(second)).expect("written");
    }

    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.changes.send_modify(|n| *n += 1);
    }

    fn open(&self, query: &str) -> mpsc::Receiver<Bytes> {
        let ended = self.ended.clone();
        let source = Source {
            path: self.dir.path().join("log"),
            changes: self.changes.subscribe(),
            ended: Box::new(move || ended.load(Ordering::SeqCst)),
        };
        let query = LogQuery::parse(query).expect("a query");
        let (out, chunks) = mpsc::channel(CHUNKS_WAITING);
        tokio::spawn(async move { send(source, query, at(100), out).await.expect("readable") });
        chunks
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("in range")
}

async fn rest(mut chunks: mpsc::Receiver<Bytes>) -> String {
    let all = async {
        let mut text = Vec::new();
        while let Some(chunk) = chunks.recv().await {
            text.extend_from_slice(&chunk);
        }
        String::from_utf8(text).expect("text")
    };
    tokio::time::timeout(LIMIT, all).await.expect("the stream ends")
}

async fn next(chunks: &mut mpsc::Receiver<Bytes>) -> String {
    let chunk = tokio::time::timeout(LIMIT, chunks.recv()).await.expect("in time").expect("a chunk");
    String::from_utf8(chunk.to_vec()).expect("text")
}

#[tokio::test]
async fn parts_of_a_log_can_be_asked_for() {
    let mut log = Log::new(1 << 20);
    for second in 0..5 {
        log.write(second * 20, &format!("line {second}\n"));
    }
    let long = "x".repeat(cri_log::LINE_BYTES_MAX + 10);
    log.write(100, &format!("{long}\n"));
    let all = rest(log.open("")).await;
    assert_eq!(all, format!("line 0\nline 1\nline 2\nline 3\nline 4\n{long}\n"));
    assert_eq!(rest(log.open("sinceSeconds=20")).await, format!("line 4\n{long}\n"));
    assert_eq!(rest(log.open("limitBytes=9")).await, "line 0\nli");
    assert_eq!(rest(log.open("tailLines=3&limitBytes=7")).await, "line 4\n");
    let timed = rest(log.open("timestamps=true&limitBytes=37")).await;
    assert_eq!(timed, "2027-01-15T08:00:00.000000000Z line 0\n"[..37]);
}

#[tokio::test]
async fn a_reader_that_follows_gets_every_line_over_rotations_until_the_end() {
    let mut log = Log::new(200);
    log.write(0, "first\n");
    let mut chunks = log.open("follow=true");
    assert_eq!(next(&mut chunks).await, "first\n");
    let mut expected = String::new();
    let mut got = String::new();
    for number in 0..40 {
        let line = format!("line {number}\n");
        log.write(1, &line);
        expected.push_str(&line);
        while got.len() < expected.len() {
            got.push_str(&next(&mut chunks).await);
        }
    }
    assert_eq!(got, expected);
    assert!(fs::exists(log.dir.path().join("log.1")).expect("readable"), "the log was rotated meanwhile");
    log.write(2, "last\n");
    log.end();
    assert_eq!(rest(chunks).await, "last\n");
}

#[tokio::test]
async fn a_log_that_has_ended_is_not_followed() {
    let mut log = Log::new(1 << 20);
    log.write(0, "all\n");
    log.end();
    assert_eq!(rest(log.open("follow=true&tailLines=10")).await, "all\n");
}
