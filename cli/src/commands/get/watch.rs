//! `lw get --watch`: changes as they come. Survives the server's restart; ends when history is gone.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use listwatch_components::client::{Backoff, BackoffPolicy};
use listwatch_proto::resource::{Kind, Object};
use listwatch_proto::v1::{self, Column, EventType, Row};
use serde_json::json;

use super::command::Get;
use super::fetch::{Wanted, decode};
use super::shape::Shape;
use crate::commands::failure::Failure;
use crate::commands::table::Table;
use crate::terminal::tell;

/// Pauses while a watch waits for the server to come back.
const REWATCH: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(50), factor: 2.0, cap: Duration::from_secs(1), jitter: 0.5 };
/// Silence that makes a watch look whether the server is still there.
const PROGRESS_INTERVAL_MS: i64 = 5000;

/// What a watch has shown so far.
struct Shown {
    table: Table,
    columns: Vec<Column>,
    is_header_due: bool,
}

impl Get<'_> {
    /// Shows what is there, then changes, until interrupted.
    pub(super) async fn watch(&mut self, wanted: &Wanted) -> Result<ExitCode, Failure> {
        let kind = wanted.kind;
        let first = self.fetch(wanted).await?;
        if self.report.exit_code() != ExitCode::SUCCESS {
            return Ok(self.report.exit_code());
        }
        if self.sort_key.is_some() {
            tell!("warning: --watch requested, --sort-by will be ignored for watch events received");
        }
        let mut shown = Shown { table: Table::default(), columns: first.columns, is_header_due: !self.args.no_headers };
        if !self.args.watch_only {
            // In one go, so that they stand as one table.
            self.show(kind, &mut shown, EventType::Added, &first.rows)?;
        }
        let mut from = (first.revision, first.incarnation);
        let mut backoff = Backoff::new(REWATCH);
        loop {
            match self.follow(wanted, &mut from, &mut shown, &mut backoff).await {
                Ok(()) => {}
                Err(Failure::Server { error, .. }) if error.is_transient() => {
                    tokio::time::sleep(backoff.next_delay()).await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Shows the events of one stream.
    async fn follow(
        &mut self,
        wanted: &Wanted,
        from: &mut (i64, String),
        shown: &mut Shown,
        backoff: &mut Backoff,
    ) -> Result<(), Failure> {
        let resource = match wanted.keys.first() {
            Some(key) => wanted.kind.reference(&key.namespace, &key.name),
            None => self.collection(wanted.kind),
        };
        let request = v1::WatchRequest {
            resource: Some(resource),
            label_selector: self.args.selector.clone(),
            field_selector: self.args.field_selector.clone(),
            start_revision: from.0,
            incarnation: from.1.clone(),
            allow_bookmarks: true,
            progress_interval_ms: PROGRESS_INTERVAL_MS,
            view: self.view() as i32,
            ..v1::WatchRequest::default()
        };
        let mut stream = self.session.client.watch_wire(request).await?;
        let patience = Duration::from_millis(2 * PROGRESS_INTERVAL_MS.unsigned_abs());
        loop {
            let message = match tokio::time::timeout(patience, stream.next()).await {
                Err(_) | Ok(Ok(None)) => return Ok(()),
                Ok(message) => message?.unwrap_or_default(),
            };
            backoff.reset();
            if !message.columns.is_empty() {
                shown.columns = message.columns;
            }
            for event in message.events {
                if event.revision <= from.0 || event.r#type() == EventType::Bookmark {
                    continue;
                }
                let r#type = event.r#type();
                let row = (event.row.unwrap_or_default(), event.object.unwrap_or_default());
                self.show(wanted.kind, shown, r#type, &[row])?;
            }
            let header = message.header.unwrap_or_default();
            *from = (from.0.max(header.revision), header.incarnation);
        }
    }

    /// Shows objects to all of which the same has happened; widths of columns are those of all rows so far.
    fn show(
        &mut self,
        kind: &'static Kind,
        shown: &mut Shown,
        event: EventType,
        rows: &[(Row, v1::Object)],
    ) -> Result<(), Failure> {
        if rows.is_empty() {
            return Ok(());
        }
        let out = &mut io::stdout().lock();
        let word = match event {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
            EventType::Bookmark | EventType::Unspecified => return Ok(()),
        };
        let word = self.args.output_watch_events.then_some(word);
        if let Some(printer) = self.printer.as_mut().filter(|printer| !printer.is_wide()) {
            for (_, object) in rows {
                let object = decode(object)?;
                let object = match word.filter(|_| !printer.is_name()) {
                    Some(word) => event_of(word, object),
                    None => object,
                };
                printer.print(out, kind, &object)?;
            }
            return Ok(out.flush()?);
        }
        let shape = Shape::new(self.args, kind, &shown.columns, self.is_wide(), self.args.show_kind);
        let mut lines = Vec::new();
        if std::mem::take(&mut shown.is_header_due) {
            lines.push(shape.header(word.map(|_| "EVENT")));
        }
        for (row, object) in rows {
            lines.push(shape.line(row, object, word)?);
        }
        shown.table.print(out, &lines)?;
        Ok(out.flush()?)
    }
}

/// An event as one object, as watches of Kubernetes have it.
fn event_of(word: &str, mut object: Object) -> Object {
    object.remove(&["metadata", "managedFields"]);
    Object::from_value(json!({"type": word, "object": object.into_value()})).unwrap_or_default()
}
