//! `lw certificate`: approves and denies requests for certificates.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use listwatch_components::client::{Error, WriteParams};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object, ObjectKey, time};
use serde_json::{Value, json};

use super::failure::{Failure, Report};
use super::manifest::FileArgs;
use super::output::{PrintArgs, Printer};
use super::session::{Session, SessionArgs, full_name};

/// How often a request that changes meanwhile is judged anew (kubectl's number).
const TRIES_MAX: u32 = 10;

/// Approve or deny requests for certificates
///
/// Examples: lw certificate approve csr-sqgzp; lw certificate deny csr-sqgzp
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct CertificateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Approve requests: their certificates can then be issued
    ///
    /// Examples: lw certificate approve csr-sqgzp
    Approve(JudgeArgs),
    /// Deny requests
    ///
    /// Examples: lw certificate deny csr-sqgzp
    Deny(JudgeArgs),
}

#[derive(Debug, Args)]
struct JudgeArgs {
    /// Names of the requests
    names: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    print: PrintArgs,
    /// Write a request that has been judged so already, too
    #[arg(long)]
    force: bool,
}

/// What is made of a request.
#[derive(Debug, Clone, Copy)]
struct Judgement {
    condition: &'static str,
    opposite: &'static str,
    reason: &'static str,
    message: &'static str,
    deed: &'static str,
}

const APPROVED: Judgement = Judgement {
    condition: "Approved",
    opposite: "Denied",
    reason: "KubectlApprove",
    message: "This CSR was approved by kubectl certificate approve.",
    deed: "approved",
};
const DENIED: Judgement = Judgement {
    condition: "Denied",
    opposite: "Approved",
    reason: "KubectlDeny",
    message: "This CSR was denied by kubectl certificate deny.",
    deed: "denied",
};

/// Runs the command.
pub(crate) async fn run(args: &CertificateArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        What::Approve(args) => judge_all(args, APPROVED).await,
        What::Deny(args) => judge_all(args, DENIED).await,
    }
}

async fn judge_all(args: &JudgeArgs, judgement: Judgement) -> Result<ExitCode, Failure> {
    if args.names.is_empty() && args.files.is_empty() {
        return Err(Failure::usage("one or more CSRs must be specified as <name> or -f <filename>"));
    }
    let mut printer = args.print.printer()?;
    let session = Session::open(&args.session)?;
    let kind = Kind::by_name("certificatesigningrequests").expect("a served kind");
    let mut report = Report::default();
    let mut names = Vec::new();
    for manifest in args.files.read(&session, "judge") {
        match manifest {
            Ok(manifest) if manifest.kind == kind => names.push(manifest.object.name().to_owned()),
            Ok(manifest) => {
                let (can, got) = (kind.name(), manifest.kind.kind);
                report.fail(Failure::plain(format!("can only handle {can} objects, got {got}")));
            }
            Err(failure) => report.fail(failure),
        }
    }
    names.extend(args.names.iter().cloned());
    for name in &names {
        if let Err(failure) = judge(&session, kind, name, args.force, judgement, &mut printer).await {
            report.fail(failure);
        }
    }
    Ok(report.exit_code())
}

async fn judge(
    session: &Session,
    kind: &'static Kind,
    name: &str,
    force: bool,
    judgement: Judgement,
    printer: &mut Option<Printer>,
) -> Result<(), Failure> {
    let api = session.api(kind);
    let mut tries = 0;
    let object = loop {
        let live = api.get(&ObjectKey::new("", name)).await?.object;
        let judged = judged(&live, judgement, Timestamp::now())?;
        let Some(judged) = judged.or_else(|| force.then(|| live.clone())) else { break live };
        match api.update_with(&judged, "approval", &WriteParams::default()).await {
            Ok(written) => break written.object,
            Err(Error::Status(status)) if status.code == 409 && tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error.into()),
        }
    };
    let out = &mut io::stdout().lock();
    match printer {
        Some(printer) => printer.print(out, kind, &object),
        None => Ok(writeln!(out, "{} {}", full_name(kind, name), judgement.deed)?),
    }
}

/// The request with the judgement; `None`: it has it already.
fn judged(request: &Object, judgement: Judgement, now: Timestamp) -> Result<Option<Object>, Failure> {
    let conditions = request.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let has = |kind: &str| conditions.iter().any(|condition| condition["type"] == kind);
    if has(judgement.opposite) {
        let name = quote(request.name());
        return Err(Failure::plain(format!("certificate signing request {name} is already {}", judgement.opposite)));
    }
    if has(judgement.condition) {
        return Ok(None);
    }
    let mut conditions = conditions;
    conditions.push(json!({
        "type": judgement.condition, "status": "True", "reason": judgement.reason, "message": judgement.message,
        "lastUpdateTime": time(now),
    }));
    let mut request = request.clone();
    request.set(&["status", "conditions"], conditions);
    Ok(Some(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_judged_once_and_never_both_ways() {
        let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": "a"}, "spec": {}});
        let request = Object::from_value(object).expect("a map");
        let now = Timestamp::UNIX_EPOCH;
        let approved = judged(&request, APPROVED, now).expect("fits").expect("a change");
        let condition = &approved.at(&["status", "conditions"]).expect("set")[0];
        assert_eq!((&condition["type"], &condition["reason"]), (&json!("Approved"), &json!("KubectlApprove")));
        assert_eq!(condition["lastUpdateTime"], "1970-01-01T00:00:00Z");
        assert!(judged(&approved, APPROVED, now).expect("fits").is_none());
        let failure = judged(&approved, DENIED, now).expect_err("both ways").text();
        assert_eq!(failure, "error: certificate signing request \"a\" is already Approved");
    }
}
