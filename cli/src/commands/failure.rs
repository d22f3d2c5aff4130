//! Failures in kubectl's words, and the exit code that they come to.

use std::process::ExitCode;

use crate::terminal::tell;
use listwatch_components::client::{ConfigError, Error};
use listwatch_proto::resource::{Cause, Reason, Status};

/// A command that could not be done, or a part of it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong usage.
    Usage(String),
    /// Anything that is said after `error: `.
    Plain(String),
    /// Anything that is said as it stands.
    Bare(String),
    /// Whoever read the output has seen enough (`lw get pods | head`): nothing to say. (SIGPIPE itself stays ignored:
    /// it would end the command when a server closes its connection, too.)
    ReaderGone,
    /// What the server or the way to it has refused.
    Server {
        /// `error when creating "a.yaml"`; empty: nothing to add.
        context: String,
        /// As it came.
        error: Error,
    },
}

impl Failure {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Failure::Usage(text.into())
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Failure::Plain(text.into())
    }

    /// The server's failure with what was being done.
    pub(crate) fn during(context: impl Into<String>, error: Error) -> Self {
        Failure::Server { context: context.into(), error }
    }

    /// What a person reads on standard error.
    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Usage(text) | Failure::Plain(text) => format!("error: {text}"),
            Failure::Bare(text) => text.clone(),
            Failure::ReaderGone => String::new(),
            Failure::Server { context, error } => match error {
                Error::Status(status) => status_text(context, status),
                Error::Transport { reason, .. } => transport_text(reason),
                error => format!("error: {}", with_causes(error)),
            },
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::during("", error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::Plain(with_causes(&error))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure::ReaderGone;
        }
        Failure::Plain(error.to_string())
    }
}

fn status_text(context: &str, status: &Status) -> String {
    let mut message =
        if context.is_empty() { status.message.clone() } else { format!("{context}: {}", status.message) };
    // What does not decode is told in the server's words, which do not always name the field.
    let is_unnamed = |cause: &&Cause| status.reason == Reason::BadRequest && !status.message.contains(&cause.field);
    for cause in status.causes.iter().filter(is_unnamed) {
        message.push_str(&format!(" (in {})", cause.field));
    }
    match status.reason {
        Reason::Invalid => invalid_text(status),
        Reason::Unauthorized => "error: You must be logged in to the server (Unauthorized)".to_owned(),
        Reason::Unknown => format!("Error from server: {message}"),
        reason => format!("Error from server ({}): {message}", reason.as_str()),
    }
}

/// Built from the causes, one line each, as kubectl does.
fn invalid_text(status: &Status) -> String {
    let mut faults: Vec<String> = Vec::new();
    for cause in &status.causes {
        let fault =
            if cause.field.is_empty() { cause.message.clone() } else { format!("{}: {}", cause.field, cause.message) };
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    let head = if status.kind.is_empty() {
        "The request is invalid".to_owned()
    } else {
        format!("The {} \"{}\" is invalid", status.kind, status.name)
    };
    match faults.as_slice() {
        [] if status.kind.is_empty() && !status.message.is_empty() => format!("{head}: {}", status.message),
        [] => head,
        [one] => format!("{head}: {one}"),
        many => format!("{head}: \n* {}", many.join("\n* ")),
    }
}

fn transport_text(reason: &str) -> String {
    let refused = reason.split_once("connect to ").and_then(|(_, rest)| {
        let (address, why) = rest.split_once(": ")?;
        why.contains("refused").then(|| address.to_owned())
    });
    match refused {
        Some(address) => {
            format!("The connection to the server {address} was refused - did you specify the right host or port?")
        }
        None => format!("Unable to connect to the server: {reason}"),
    }
}

/// An error with its causes in one line; a cause that the text before it has told already is not told again.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let told = cause.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        next = cause.source();
    }
    text
}

/// Collects what becomes of the parts of a command: it goes on after a failure, and ends with 1 if there was one.
#[derive(Debug, Default)]
pub(crate) struct Report {
    failed: bool,
}

impl Report {
    /// Says a failure on standard error.
    pub(crate) fn fail(&mut self, failure: impl Into<Failure>) {
        let failure = failure.into();
        if matches!(failure, Failure::ReaderGone) {
            return;
        }
        tell!("{}", failure.text());
        self.failed = true;
    }

    /// Says the failures of parts that were all tried. Several stand as bare lines, as with kubectl.
    pub(crate) fn fail_all(&mut self, failures: Vec<Failure>) {
        let is_one = failures.len() == 1;
        for failure in failures {
            match failure {
                Failure::Plain(text) if !is_one => {
                    tell!("{text}");
                    self.failed = true;
                }
                failure => self.fail(failure),
            }
        }
    }

    /// 0 done, 1 refused, failed or wrong usage: kubectl's.
    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_proto::resource::Kind;

    fn server(status: Status) -> String {
        Failure::from(Error::Status(Box::new(status))).text()
    }

    #[test]
    fn words_are_those_of_kubectl() {
        let pod = Kind::by_name("pod").expect("known");
        assert_eq!(server(Status::not_found(pod, "x")), "Error from server (NotFound): pods \"x\" not found");
        let failure = Failure::during(
            "error when creating \"a.yaml\"",
            Error::Status(Box::new(Status::already_exists(pod, "x"))),
        );
        assert_eq!(
            failure.text(),
            "Error from server (AlreadyExists): error when creating \"a.yaml\": pods \"x\" already exists"
        );
        let cause = |field: &str| Cause { field: field.into(), message: "Required value".into(), ..Cause::default() };
        let deployment = Kind::by_name("deploy").expect("known");
        assert_eq!(
            server(Status::invalid(deployment, "d", vec![cause("spec.selector")])),
            "The Deployment \"d\" is invalid: spec.selector: Required value"
        );
        let bare = Status::new(Reason::Invalid, "the server rejected our request due to an error in our request");
        assert_eq!(
            server(bare),
            "The request is invalid: the server rejected our request due to an error in our request"
        );
        assert_eq!(
            server(Status::invalid(deployment, "d", vec![cause("a"), cause("b"), cause("a")])),
            "The Deployment \"d\" is invalid: \n* a: Required value\n* b: Required value"
        );
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let text = transport_text("tcp connect error: connect to 127.0.0.1:1: Connection refused (os error 111)");
        assert_eq!(
            text,
            "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"
        );
    }

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("Not a directory")
            .context("make the folder x: Not a directory")
            .context("make the folder x: Not a directory")
            .context("--data-dir x");
        assert_eq!(with_causes(error.as_ref()), "--data-dir x: make the folder x: Not a directory");
    }
}
