//! `lw get`: shows objects in tables, whose columns are the server's, or in forms for programs.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use listwatch_components::client::{Backoff, BackoffPolicy, Error};
use listwatch_proto::resource::{Kind, Object};
use listwatch_proto::v1::{self, Column, EventType, ResourceRef, Row, View};

use super::failure::{Failure, Report};
use super::output::{self, Form};
use super::session::{Session, SessionArgs, Target, full_name, parse_targets};
use super::table::Table;

/// Objects on a page of a list (kubectl's number).
const PAGE: i64 = 500;
/// Pauses while a watch waits for the server to come back.
const REWATCH: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(50), factor: 2.0, cap: Duration::from_secs(1), jitter: 0.5 };
/// Silence that makes a watch look whether the server is still there.
const PROGRESS_INTERVAL_MS: i64 = 5000;

/// Show objects
///
/// Examples: lw get pods -o wide; lw get deploy,rs; lw get all; lw get pod/web-0 -o yaml; lw get pods -w -l app=web
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// KIND [NAME…], KIND,KIND, all, or KIND/NAME …
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// Form of the output; without it a table
    #[arg(short, long, value_enum)]
    output: Option<GetForm>,
    /// Only objects with these labels: a=b, a!=b, a in (b,c), a, !a
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Only objects with these fields: status.phase=Running
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    field_selector: String,
    /// Every namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Show changes as they come
    #[arg(short, long)]
    watch: bool,
    /// Show changes alone, not what is there
    #[arg(long)]
    watch_only: bool,
    /// With --watch, say what happened to each object
    #[arg(long)]
    output_watch_events: bool,
    /// No line with the columns' names
    #[arg(long)]
    no_headers: bool,
    /// A column with all labels
    #[arg(long)]
    show_labels: bool,
    /// The kind before each name
    #[arg(long)]
    show_kind: bool,
    /// A column for each of these labels
    #[arg(short = 'L', long, value_name = "LABEL", value_delimiter = ',')]
    label_columns: Vec<String>,
    /// Say nothing of names that do not exist
    #[arg(long)]
    ignore_not_found: bool,
}

/// Forms of `lw get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GetForm {
    /// The table with every column.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// `kind/name`, one a line.
    Name,
}

/// Objects of one kind as the server gave them.
#[derive(Default)]
struct Answer {
    columns: Vec<Column>,
    rows: Vec<(Row, v1::Object)>,
    revision: i64,
    incarnation: String,
    /// Asked for by name: nothing to say when there is none.
    is_named: bool,
}

struct Get<'a> {
    args: &'a GetArgs,
    session: Session,
    report: Report,
}

/// Runs the command.
pub(crate) async fn run(args: &GetArgs) -> Result<ExitCode, Failure> {
    if args.words.is_empty() {
        return Err(Failure::usage(
            "You must specify the type of resource to get. Use \"lw get --help\" for examples.",
        ));
    }
    let targets = parse_targets(&args.words)?;
    let has_names = targets.iter().any(|t| !t.names.is_empty());
    if has_names && !(args.selector.is_empty() && args.field_selector.is_empty()) {
        return Err(Failure::usage("name cannot be provided when a selector is specified"));
    }
    if has_names && args.all_namespaces {
        return Err(Failure::usage("a resource cannot be retrieved by name across all namespaces"));
    }
    let mut session = Session::open(&args.session)?;
    if args.all_namespaces {
        session.namespace.clear();
    }
    let mut get = Get { args, session, report: Report::default() };
    if args.watch || args.watch_only {
        return match targets.as_slice() {
            [target] if target.names.len() <= 1 => get.watch(target).await,
            _ => Err(Failure::usage("you may only specify a single resource type")),
        };
    }
    get.once(&targets).await?;
    Ok(get.report.exit_code())
}

impl Get<'_> {
    fn form(&self) -> Option<Form> {
        match self.args.output {
            Some(GetForm::Json) => Some(Form::Json),
            Some(GetForm::Yaml) => Some(Form::Yaml),
            Some(GetForm::Name) => Some(Form::Name),
            Some(GetForm::Wide) | None => None,
        }
    }

    fn view(&self) -> View {
        match self.form() {
            None => View::Table,
            Some(Form::Name) => View::Metadata,
            Some(_) => View::Object,
        }
    }

    async fn once(&mut self, targets: &[Target]) -> Result<(), Failure> {
        let mut answers = Vec::new();
        for target in targets {
            let answer = if target.names.is_empty() { self.list(target.kind).await } else { self.named(target).await };
            match answer {
                Ok(answer) => answers.push((target.kind, answer)),
                Err(failure) => self.report.fail(failure),
            }
        }
        match self.form() {
            Some(form) => self.print_objects(form, targets, answers),
            None => self.print_tables(answers),
        }
    }

    /// A whole collection; all its pages are of one snapshot.
    async fn list(&self, kind: &'static Kind) -> Result<Answer, Failure> {
        let mut answer = Answer::default();
        let mut continue_token = String::new();
        loop {
            let request = v1::ListRequest {
                resource: Some(self.collection(kind)),
                label_selector: self.args.selector.clone(),
                field_selector: self.args.field_selector.clone(),
                limit: PAGE,
                continue_token,
                view: self.view() as i32,
                ..v1::ListRequest::default()
            };
            let page = self.session.client.list_wire(request).await.map_err(|e| self.list_failure(kind, e))?;
            if answer.columns.is_empty() {
                answer.columns = page.columns;
            }
            answer.revision = page.revision;
            answer.incarnation = page.header.unwrap_or_default().incarnation;
            let mut rows = page.rows.into_iter();
            answer.rows.extend(page.items.into_iter().map(|item| (rows.next().unwrap_or_default(), item)));
            if page.continue_token.is_empty() {
                return Ok(answer);
            }
            continue_token = page.continue_token;
        }
    }

    /// kubectl says which selection it was that the server did not understand.
    fn list_failure(&self, kind: &Kind, error: Error) -> Failure {
        let has_selector = !(self.args.selector.is_empty() && self.args.field_selector.is_empty());
        if has_selector && error.is(listwatch_proto::resource::Reason::BadRequest) {
            let version = if kind.group.is_empty() { format!("/{}", kind.version) } else { kind.api_version() };
            let context = format!(
                "Unable to find \"{version}, Resource={}\" that match label selector \"{}\", field selector \"{}\"",
                kind.plural, self.args.selector, self.args.field_selector
            );
            return Failure::during(context, error);
        }
        error.into()
    }

    /// The objects of these names; a failure of one is said and the others are shown.
    async fn named(&mut self, target: &Target) -> Result<Answer, Failure> {
        let mut answer = Answer { is_named: true, ..Answer::default() };
        for name in &target.names {
            let request = v1::GetRequest {
                resource: Some(target.kind.reference(self.session.namespace_of(target.kind), name)),
                min_revision: 0,
                view: self.view() as i32,
            };
            match self.session.client.get_wire(request).await {
                Ok(found) => {
                    answer.columns = found.columns;
                    let header = found.header.unwrap_or_default();
                    (answer.revision, answer.incarnation) = (header.revision, header.incarnation);
                    answer.rows.extend(found.object.map(|object| (found.row.unwrap_or_default(), object)));
                }
                Err(error) if error.is_not_found() && self.args.ignore_not_found => {}
                Err(error) => {
                    let error = self.session.explain_missing(target.kind, error).await;
                    self.report.fail(error);
                }
            }
        }
        Ok(answer)
    }

    fn collection(&self, kind: &'static Kind) -> ResourceRef {
        kind.reference(self.session.namespace_of(kind), "")
    }

    fn print_objects(
        &mut self,
        form: Form,
        targets: &[Target],
        answers: Vec<(&'static Kind, Answer)>,
    ) -> Result<(), Failure> {
        let is_single = matches!(targets, [target] if target.names.len() == 1);
        let mut objects = Vec::new();
        for (kind, answer) in answers {
            for (_, wire) in answer.rows {
                objects.push((kind, decode(&wire)?));
            }
        }
        let out = &mut io::stdout().lock();
        match objects.as_slice() {
            [] if is_single => {}
            [(kind, object)] if is_single => output::print(out, form, kind, object)?,
            all => output::print_list(out, form, all)?,
        }
        Ok(())
    }

    fn print_tables(&mut self, answers: Vec<(&'static Kind, Answer)>) -> Result<(), Failure> {
        let with_kind = self.args.show_kind || answers.len() > 1;
        let out = &mut io::stdout().lock();
        let mut is_first = true;
        let mut was_asked_for_names = false;
        let mut all_cluster_scoped = true;
        for (kind, answer) in &answers {
            was_asked_for_names |= answer.is_named;
            all_cluster_scoped &= !kind.namespaced;
            if answer.rows.is_empty() {
                continue;
            }
            if !is_first {
                writeln!(out)?;
            }
            is_first = false;
            let shape = Shape::new(self.args, kind, &answer.columns, with_kind, self.session.namespace.is_empty());
            let mut lines = Vec::new();
            if !self.args.no_headers {
                lines.push(shape.header(None));
            }
            for (row, object) in &answer.rows {
                lines.push(shape.line(row, object, None)?);
            }
            Table::default().print(out, &lines)?;
        }
        if is_first && !was_asked_for_names && !answers.is_empty() {
            if all_cluster_scoped || self.session.namespace.is_empty() {
                eprintln!("No resources found");
            } else {
                eprintln!("No resources found in {} namespace.", self.session.namespace);
            }
        }
        Ok(())
    }

    /// Shows what is there, then changes, until interrupted. Survives the server's restart; ends when history is gone.
    async fn watch(&mut self, target: &Target) -> Result<ExitCode, Failure> {
        let kind = target.kind;
        let first = if target.names.is_empty() { self.list(kind).await? } else { self.named(target).await? };
        if self.report.exit_code() != ExitCode::SUCCESS {
            return Ok(self.report.exit_code());
        }
        let mut shown = Shown { table: Table::default(), columns: first.columns, is_header_due: !self.args.no_headers };
        if !self.args.watch_only {
            // In one go, so that they stand as one table.
            self.show(kind, &mut shown, EventType::Added, &first.rows)?;
        }
        let mut from = (first.revision, first.incarnation);
        let mut backoff = Backoff::new(REWATCH);
        loop {
            match self.follow(target, &mut from, &mut shown, &mut backoff).await {
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
        target: &Target,
        from: &mut (i64, String),
        shown: &mut Shown,
        backoff: &mut Backoff,
    ) -> Result<(), Failure> {
        let mut resource = self.collection(target.kind);
        resource.name = target.names.first().cloned().unwrap_or_default();
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
                self.show(target.kind, shown, r#type, &[row])?;
            }
            let header = message.header.unwrap_or_default();
            *from = (from.0.max(header.revision), header.incarnation);
        }
    }

    /// Shows objects to all of which the same has happened; widths of columns are those of all rows so far.
    fn show(
        &self,
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
        if let Some(form) = self.form() {
            for (_, object) in rows {
                output::print(out, form, kind, &decode(object)?)?;
            }
            return Ok(out.flush()?);
        }
        let is_everywhere = self.session.namespace.is_empty();
        let shape = Shape::new(self.args, kind, &shown.columns, self.args.show_kind, is_everywhere);
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

/// What a watch has shown so far.
struct Shown {
    table: Table,
    columns: Vec<Column>,
    is_header_due: bool,
}

/// Which columns a table shows.
struct Shape<'a> {
    args: &'a GetArgs,
    kind: &'static Kind,
    /// Places of the server's columns that are shown.
    places: Vec<(usize, &'a Column)>,
    with_kind: bool,
    with_namespace: bool,
}

impl<'a> Shape<'a> {
    fn new(
        args: &'a GetArgs,
        kind: &'static Kind,
        columns: &'a [Column],
        with_kind: bool,
        all_namespaces: bool,
    ) -> Self {
        let is_wide = args.output == Some(GetForm::Wide);
        let places = columns.iter().enumerate().filter(|(_, c)| is_wide || c.priority == 0).collect();
        Shape { args, kind, places, with_kind, with_namespace: all_namespaces && kind.namespaced }
    }

    fn header(&self, event: Option<&str>) -> Vec<String> {
        let mut cells: Vec<String> = event.map(str::to_owned).into_iter().collect();
        if self.with_namespace {
            cells.push("NAMESPACE".to_owned());
        }
        cells.extend(self.places.iter().map(|(_, column)| column.name.to_uppercase()));
        let last_part = |label: &String| label.rsplit('/').next().unwrap_or(label).to_uppercase();
        cells.extend(self.args.label_columns.iter().map(last_part));
        if self.args.show_labels {
            cells.push("LABELS".to_owned());
        }
        cells
    }

    fn line(&self, row: &Row, wire: &v1::Object, event: Option<&str>) -> Result<Vec<String>, Failure> {
        let mut cells: Vec<String> = event.map(str::to_owned).into_iter().collect();
        if self.with_namespace {
            cells.push(wire.namespace.clone());
        }
        for (place, column) in &self.places {
            let cell = row.cells.get(*place).cloned().unwrap_or_default();
            let is_name = self.with_kind && column.format == "name";
            cells.push(if is_name { full_name(self.kind, &cell) } else { cell });
        }
        if self.args.show_labels || !self.args.label_columns.is_empty() {
            let object = decode(wire)?;
            let value = |label: &String| object.label(label).unwrap_or_default().to_owned();
            cells.extend(self.args.label_columns.iter().map(value));
            if self.args.show_labels {
                let labels: Vec<_> = object.labels().map(|(k, v)| format!("{k}={v}")).collect();
                cells.push(if labels.is_empty() { "<none>".to_owned() } else { labels.join(",") });
            }
        }
        Ok(cells)
    }
}

fn decode(wire: &v1::Object) -> Result<Object, Failure> {
    Object::from_slice(&wire.json)
        .map_err(|e| Failure::plain(format!("cannot read {} {:?} from the server: {e}", wire.kind, wire.name)))
}
