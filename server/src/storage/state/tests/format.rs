//! The format on disk, held against fixtures of every format that was ever released.
//!
//! A fixture is the tree as text, an entry a line: key and value in hexadecimal, a run at the value's end as
//! `BYTE*COUNT`. A changed format needs a new number and a new fixture; the old ones stay and must stay readable.

use std::fmt::Write as _;
use std::sync::Arc;

use super::super::*;
use super::model::{Model, dump};

const FORMAT_1: &str = include_str!("../fixtures/format-1.txt");

/// A store with every kind of record: live, deleted, based, chunked, leased, with and without a client name.
fn sample(state: Arc<dyn State>) -> Model {
    let mut model = Model::open(state);
    model.write_at(2, b"registry/pods/a", Some(b"old"));
    model.write_at(3, b"registry/pods/a", Some(b"base"));
    model.write_at(4, b"long", Some(&[7; CHUNK_BYTES + 1]));
    model.write_at(5, b"leased\0key", Some(b""));
    model.write_at(6, b"floor", Some(b"x"));
    model.checkpoint().unwrap();
    model.advance_floor(6).unwrap();
    model.write_at(7, b"registry/pods/a", Some(b"new"));
    model.write_at(8, b"floor", None);
    model.checkpoint().unwrap();
    let mut checkpoint = model.writer.checkpoint().unwrap();
    checkpoint.put_lease(LeaseRecord { id: -5, ttl_secs: 60, deadline_wall_ms: 1_700_000_000_000 }).unwrap();
    let pending = vec![PendingFloor { revision: 7, wall_ms: 1_700_000_000_123 }];
    checkpoint.finish(Applied { seq: 9, revision: 8 }, Compactions { compacted: 7, pending }).unwrap();
    model
}

fn to_text(state: &dyn State) -> String {
    let mut text = String::new();
    for (key, value) in dump(state) {
        let last = value.last().copied().unwrap_or_default();
        let run = value.iter().rev().take_while(|&&b| b == last).count();
        let shown = if run > 16 { value.len() - run } else { value.len() };
        key.iter().for_each(|b| write!(text, "{b:02x}").unwrap());
        text.push(' ');
        value[..shown].iter().for_each(|b| write!(text, "{b:02x}").unwrap());
        if shown < value.len() {
            write!(text, " {last:02x}*{run}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn from_text(text: &str) -> MemoryState {
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let mut batch = StateBatch::default();
    for line in text.lines() {
        let mut fields = line.split(' ');
        let (key, mut value) = (bytes(fields.next().unwrap()), bytes(fields.next().unwrap()));
        if let Some((byte, count)) = fields.next().and_then(|run| run.split_once('*')) {
            value.extend(std::iter::repeat_n(bytes(byte)[0], count.parse().unwrap()));
        }
        batch.put(key, value);
    }
    let state = MemoryState::new();
    state.apply(batch).unwrap();
    state.sync().unwrap();
    state
}

#[test]
fn today_writes_format_1_to_the_letter() {
    let state = MemoryState::new();
    sample(Arc::new(state.clone()));
    let text = to_text(&state);
    if std::env::var_os("REGENERATE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/storage/state/fixtures/format-1.txt");
        std::fs::write(path, &text).unwrap();
        return;
    }
    assert_eq!(text, FORMAT_1, "the format on disk has changed: raise it and keep reading the old one");
}

#[test]
fn format_1_is_read() {
    let expected = sample(Arc::new(MemoryState::new()));
    let state = from_text(FORMAT_1);
    let (reader, writer) = open_store(Arc::new(state), || panic!("it has an identity")).unwrap();
    assert_eq!(writer.meta(), expected.writer.meta());
    let records = |reader: &StateReader| {
        let mut records = Vec::new();
        reader.scan_current(&mut |record| records.push(record.to_record())).unwrap();
        reader.scan_base(&mut |record| records.push(record.to_record())).unwrap();
        records
    };
    assert_eq!(records(&reader), records(&expected.reader));
    assert_eq!(records(&reader).len(), 6);
    assert_eq!(reader.leases().unwrap(), expected.reader.leases().unwrap());
}
