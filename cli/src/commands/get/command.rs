//! `lw get`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::RawRequest;
use listwatch_proto::v1::View;

use super::fetch::{Answer, Wanted, decode};
use super::shape::Shape;
use crate::commands::failure::{Failure, Report};
use crate::commands::manifest::FileArgs;
use crate::commands::output::{Printer, SortKey};
use crate::commands::session::{Session, SessionArgs, parse_targets};
use crate::commands::table::Table;
use crate::usage::{program, see};

/// Show objects
///
/// Examples: lw get pods -o wide; lw get deploy,rs; lw get all; lw get pod/web-0 -o yaml; lw get pods -w -l app=web;
/// lw get nodes -L zone --sort-by=.metadata.name; lw get pod web-0 -o jsonpath='{.status.podIP}'
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// KIND [NAME…], KIND,KIND, all, or KIND/NAME …
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    /// Form of the output, without it a table: wide, json, yaml, name, jsonpath=TEMPLATE, custom-columns=NAME:PATH,…
    #[arg(short, long, value_name = "FORM")]
    output: Option<String>,
    /// Only objects with these labels: a=b, a!=b, a in (b,c), a, !a
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub(super) selector: String,
    /// Only objects with these fields: status.phase=Running
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub(super) field_selector: String,
    /// Every namespace
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,
    /// Show changes as they come
    #[arg(short, long)]
    watch: bool,
    /// Show changes alone, not what is there
    #[arg(long)]
    pub(super) watch_only: bool,
    /// With --watch, say what happened to each object
    #[arg(long)]
    pub(super) output_watch_events: bool,
    /// No line with the columns' names
    #[arg(long)]
    pub(super) no_headers: bool,
    /// A column with all labels
    #[arg(long)]
    pub(super) show_labels: bool,
    /// The kind before each name
    #[arg(long)]
    pub(super) show_kind: bool,
    /// A column for each of these labels
    #[arg(short = 'L', long, value_name = "LABEL", value_delimiter = ',')]
    pub(super) label_columns: Vec<String>,
    /// In the order of this field: .metadata.name
    #[arg(long, value_name = "PATH")]
    sort_by: Option<String>,
    /// Say nothing of names that do not exist
    #[arg(long)]
    pub(super) ignore_not_found: bool,
    /// Ask for this path of the server, and show what it answers: /healthz, /api/v1/nodes
    #[arg(long, value_name = "PATH")]
    raw: Option<String>,
    /// With json, yaml and templates, keep who manages which fields
    #[arg(long)]
    show_managed_fields: bool,
    /// How many objects are asked for at a time; 0: all at once
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(i64).range(0..))]
    pub(super) chunk_size: i64,
}

/// One run of the command.
pub(super) struct Get<'a> {
    pub(super) args: &'a GetArgs,
    pub(super) session: Session,
    pub(super) report: Report,
    pub(super) printer: Option<Printer>,
    pub(super) sort_key: Option<SortKey>,
}

/// Runs the command.
pub(crate) async fn run(args: &GetArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.raw {
        return send(args, path).await;
    }
    if args.words.is_empty() && args.files.is_empty() {
        let lw = program();
        return Err(Failure::Bare(format!(
            "You must specify the type of resource to get. Use \"{lw} api-resources\" for a complete list of supported \
             resources.\n\nerror: Required resource not specified.\nUse \"{lw} explain <resource>\" for a detailed description \
             of that resource (e.g. {lw} explain pods).\n{}",
            see("get")
        )));
    }
    let printer = args.output.as_deref().map(|text| Printer::parse(text, args.no_headers)).transpose()?;
    let printer = printer.map(|printer| printer.with_managed_fields(args.show_managed_fields));
    let sort_key = args.sort_by.as_deref().map(SortKey::parse).transpose().map_err(Failure::usage)?;
    if args.show_labels && printer.as_ref().is_some_and(|printer| !printer.is_wide()) {
        let form = args.output.as_deref().unwrap_or_default();
        let form = form.split('=').next().unwrap_or_default();
        return Err(Failure::usage(format!("--show-labels option cannot be used with {form} printer")));
    }
    // Who has no server yet is told so later; until then only the kinds of the table are known.
    let _ = Session::open(&args.session);
    let targets = parse_targets(&args.words)?;
    let has_names = targets.iter().any(|t| !t.names.is_empty());
    if (has_names || !args.files.is_empty()) && !(args.selector.is_empty() && args.field_selector.is_empty()) {
        return Err(Failure::usage("name cannot be provided when a selector is specified"));
    }
    if has_names && args.all_namespaces {
        return Err(Failure::usage("a resource cannot be retrieved by name across all namespaces"));
    }
    let mut session = Session::open(&args.session)?;
    if args.all_namespaces {
        session.namespace.clear();
    }
    let mut get = Get { args, session, report: Report::default(), printer, sort_key };
    let mut wanted: Vec<Wanted> = targets
        .into_iter()
        .map(|t| Wanted { kind: t.kind, keys: t.names.iter().map(|name| get.session.key(t.kind, name)).collect() })
        .collect();
    get.add_files(&mut wanted);
    if args.watch || args.watch_only {
        return match wanted.as_slice() {
            [one] if one.keys.len() <= 1 => match get.session.request_timeout {
                // A watch is one request: it ends with the time that one may take.
                Some(limit) => tokio::time::timeout(limit, get.watch(one)).await.unwrap_or(Ok(ExitCode::SUCCESS)),
                None => get.watch(one).await,
            },
            _ => Err(Failure::usage("you may only specify a single resource type")),
        };
    }
    get.once(&wanted).await?;
    Ok(get.report.exit_code())
}

/// Shows what stands at a path of the server.
async fn send(args: &GetArgs, path: &str) -> Result<ExitCode, Failure> {
    if args.output.is_some() || args.watch || !args.words.is_empty() || !args.files.is_empty() {
        return Err(Failure::usage("arguments may not be passed when --raw is specified"));
    }
    let answer = Session::open(&args.session)?.client.raw(RawRequest::get(path)).await?;
    io::stdout().lock().write_all(&answer)?;
    Ok(ExitCode::SUCCESS)
}

impl Get<'_> {
    /// What the files name; neighbours of one kind are shown in one table.
    fn add_files(&mut self, wanted: &mut Vec<Wanted>) {
        for manifest in self.args.files.read(&self.session, "get") {
            match manifest {
                Err(failure) => self.report.fail(failure),
                Ok(manifest) => match wanted.last_mut() {
                    Some(last) if last.kind == manifest.kind => last.keys.push(manifest.key()),
                    _ => wanted.push(Wanted { kind: manifest.kind, keys: vec![manifest.key()] }),
                },
            }
        }
    }

    /// Whether the server's wide columns are shown too.
    pub(super) fn is_wide(&self) -> bool {
        self.printer.as_ref().is_some_and(Printer::is_wide)
    }

    /// What is asked of each object.
    pub(super) fn view(&self) -> View {
        match &self.printer {
            None => View::Table,
            Some(printer) if printer.is_wide() => View::Table,
            Some(printer) if printer.is_name() && self.sort_key.is_none() => View::Metadata,
            Some(_) => View::Object,
        }
    }

    async fn once(&mut self, wanted: &[Wanted]) -> Result<(), Failure> {
        let mut answers = Vec::new();
        for one in wanted {
            match self.fetch(one).await {
                Ok(answer) => answers.push((one, answer)),
                Err(failure) => self.report.fail(failure),
            }
        }
        match self.printer.take().filter(|printer| !printer.is_wide()) {
            Some(printer) => self.print_objects(printer, wanted, answers),
            None => self.print_tables(&answers),
        }
    }

    fn print_objects(
        &mut self,
        mut printer: Printer,
        wanted: &[Wanted],
        answers: Vec<(&Wanted, Answer)>,
    ) -> Result<(), Failure> {
        let is_single = matches!(wanted, [one] if one.keys.len() == 1);
        let mut objects = Vec::new();
        for (one, answer) in answers {
            for (_, wire) in answer.rows {
                objects.push((one.kind, decode(&wire)?));
            }
        }
        let has_failed = self.report.exit_code() != ExitCode::SUCCESS;
        let out = &mut io::stdout().lock();
        match objects.as_slice() {
            [] if is_single || has_failed => Ok(()),
            [(kind, object)] if is_single => printer.print(out, kind, object),
            all => printer.print_list(out, all),
        }
    }

    fn print_tables(&mut self, answers: &[(&Wanted, Answer)]) -> Result<(), Failure> {
        let with_kind = self.args.show_kind || answers.len() > 1;
        let out = &mut io::stdout().lock();
        let mut is_first = true;
        for (wanted, answer) in answers {
            if answer.rows.is_empty() {
                continue;
            }
            if !is_first && !self.args.no_headers {
                writeln!(out)?;
            }
            is_first = false;
            let is_wide = self.args.output.as_deref() == Some("wide");
            let shape = Shape::new(self.args, wanted.kind, &answer.columns, is_wide, with_kind);
            let mut lines = Vec::new();
            if !self.args.no_headers {
                lines.push(shape.header(None));
            }
            for (row, object) in &answer.rows {
                lines.push(shape.line(row, object, None)?);
            }
            Table::default().print(out, &lines)?;
        }
        let was_asked_for_names = answers.iter().any(|(_, answer)| answer.is_named);
        if is_first && !was_asked_for_names && !answers.is_empty() && !self.args.ignore_not_found {
            let all_cluster_scoped = answers.iter().all(|(wanted, _)| !wanted.kind.namespaced);
            self.session.say_nothing_found(all_cluster_scoped);
        }
        Ok(())
    }
}
