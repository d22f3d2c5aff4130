//! Tables of a comparison, as markdown.

use std::fmt;

use crate::stats::{Measured, median};

/// One load on both servers: a figure is the median over the turns.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) ours: Vec<Measured>,
    pub(crate) etcd: Vec<Measured>,
}

/// The medians of one server's turns.
struct Figures {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_us: f64,
    mib: f64,
}

impl Figures {
    fn of(turns: &[Measured]) -> Self {
        let of = |figure: &dyn Fn(&Measured) -> f64| median(turns.iter().map(figure));
        Figures {
            rate: of(&Measured::rate),
            p50_ms: of(&|turn| turn.latency_ms(0.5)),
            p99_ms: of(&|turn| turn.latency_ms(0.99)),
            cpu_us: of(&|turn| turn.cpu_us().unwrap_or(0.0)),
            mib: of(&|turn| turn.server_bytes.unwrap_or(0) as f64 / f64::from(1 << 20)),
        }
    }
}

impl Row {
    /// The median over the turns of our figure divided by etcd's of the same turn.
    fn ratio(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        median(self.ours.iter().zip(&self.etcd).map(|(ours, etcd)| figure(ours) / figure(etcd).max(1e-9)))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ours, etcd) = (Figures::of(&self.ours), Figures::of(&self.etcd));
        write!(f, "| {} | {:.0} | {:.0} | **{:.2}×** ", self.label, ours.rate, etcd.rate, self.ratio(Measured::rate))?;
        write!(f, "| {:.2} / {:.2} | {:.2} / {:.2} ", ours.p50_ms, etcd.p50_ms, ours.p99_ms, etcd.p99_ms)?;
        write!(f, "| {:.0} / {:.0} ", ours.cpu_us, etcd.cpu_us)?;
        write!(f, "| **{:.2}×** ", self.ratio(|turn| turn.cpu_us().unwrap_or(0.0)))?;
        write!(f, "| {:.0} / {:.0} |", ours.mib, etcd.mib)
    }
}

/// Rows under one title.
#[derive(Debug)]
pub(crate) struct Table {
    title: String,
    ours: String,
    etcd: String,
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn new(title: &str, ours: &str, etcd: &str) -> Self {
        Table { title: title.to_owned(), ours: ours.to_owned(), etcd: etcd.to_owned(), rows: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ours, etcd) = (&self.ours, &self.etcd);
        writeln!(f, "{} ({ours} / {etcd})\n", self.title)?;
        writeln!(
            f,
            "| | {ours} per s | {etcd} per s | ratio | p50 ms | p99 ms | server CPU µs each | CPU ratio | RSS MiB |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        Ok(())
    }
}
