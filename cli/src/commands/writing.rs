//! What the commands that write the objects of files share (`create`, `apply`, `replace`, `diff`): their flags, how an
//! object is written, and how it is told what became of it. Others take the parts that they need.

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use listwatch_components::client::WriteParams;
use listwatch_proto::resource::{Kind, Object};
use listwatch_proto::v1::FieldValidation;

use super::failure::Failure;
use super::output::{PrintArgs, Printer};
use super::session::{Session, SessionArgs, full_name};

/// Flags of a command that writes the objects of files.
#[derive(Debug, Args)]
pub(crate) struct WritingArgs {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(crate) print: PrintArgs,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    pub(crate) dry_run: DryRun,
    /// What becomes of fields that do not exist
    #[arg(long, value_enum, default_value_t = Validation::Strict)]
    pub(crate) validate: Validation,
    /// Who manages the fields; without it a name after the command
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    field_manager: String,
}

impl WritingArgs {
    /// The connection, and whoever tells what becomes of the objects.
    pub(crate) fn open(&self) -> Result<(Session, Teller), Failure> {
        // A wrong form is told before anything is done.
        let printer = self.print.printer()?;
        Ok((Session::open(&self.session)?, Teller { printer, dry_run: self.dry_run }))
    }

    /// Who manages the fields, unless the person says so.
    pub(crate) fn manager<'a>(&'a self, usual: &'a str) -> &'a str {
        if self.field_manager.is_empty() { usual } else { &self.field_manager }
    }

    /// How an object is written.
    pub(crate) fn params(&self, usual_manager: &str) -> WriteParams {
        write_params(self.manager(usual_manager), self.dry_run, self.validate)
    }
}

/// Tells what became of objects, one by one.
#[derive(Debug)]
pub(crate) struct Teller {
    printer: Option<Printer>,
    dry_run: DryRun,
}

impl Teller {
    /// The object in the form that was asked for, else the deed in a line.
    pub(crate) fn tell(&mut self, kind: &'static Kind, object: &Object, deed: &str) -> Result<(), Failure> {
        let out = &mut io::stdout().lock();
        match &mut self.printer {
            Some(printer) => printer.print(out, kind, object),
            None => Ok(writeln!(out, "{} {deed}{}", full_name(kind, object.name()), self.dry_run.suffix())?),
        }
    }

    /// Whether deeds are told in lines.
    pub(crate) fn is_in_lines(&self) -> bool {
        self.printer.is_none()
    }
}

/// Who only pretends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Nobody.
    None,
    /// This program.
    Client,
    /// The server.
    Server,
}

impl DryRun {
    /// What is said behind a deed.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        }
    }
}

/// What becomes of unknown fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Validation {
    /// They are refused, each by name.
    #[value(alias = "true")]
    Strict,
    /// They are dropped with a warning.
    Warn,
    /// They are dropped.
    #[value(alias = "false")]
    Ignore,
}

/// How objects of a file are written.
pub(crate) fn write_params(manager: &str, dry_run: DryRun, validate: Validation) -> WriteParams {
    let field_validation = match validate {
        Validation::Strict => FieldValidation::Strict,
        Validation::Warn => FieldValidation::Warn,
        Validation::Ignore => FieldValidation::Ignore,
    };
    WriteParams { dry_run: dry_run == DryRun::Server, field_manager: manager.to_owned(), field_validation }
}
