//! `lw up --detach`: the same supervisor, in a session of its own.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, bail};

use super::{command::UpArgs, last_words::last_error, prepare};
use crate::cluster::control;
use crate::commands::Waiting;
use crate::terminal::{say, write_text};
use crate::usage;

/// Starts the supervisor, waits until the cluster is ready, and leaves it running.
///
/// # Errors
/// If the supervisor ends before the cluster is ready: the text is the supervisor's.
pub(crate) fn up(args: &UpArgs) -> anyhow::Result<ExitCode> {
    let layout = prepare::layout(args)?;
    layout.create()?;
    if control::is_running(&layout) {
        bail!(
            "cluster {:?} is already running: see `lw status{}`, or start another with --name",
            layout.name,
            layout.flags()
        );
    }
    let log = layout.log("up");
    let errors = File::create(&log).with_context(|| format!("open {}", log.display()))?;
    // The same flags but one; environment variables reach the child as they are, so this one is taken out.
    let flags = std::env::args_os().skip(1).filter(|arg| arg != "--detach");
    let mut command = Command::new(std::env::current_exe().context("find the lw binary")?);
    command.args(flags).env_remove("LW_DETACH").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    if !args.ready_json {
        command.arg("--ready-json");
    }
    // Safety: setsid is async-signal-safe and is all that runs between fork and exec.
    unsafe {
        command.pre_exec(|| if libc::setsid() == -1 { Err(std::io::Error::last_os_error()) } else { Ok(()) });
    }
    let mut child = command.spawn().context("start the supervisor")?;
    let waiting = Waiting::begin("the cluster to be ready");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("standard output is piped")).read_line(&mut line)?;
    drop(waiting);
    if line.is_empty() {
        let status = child.wait()?;
        let mut text = String::new();
        File::open(&log)?.read_to_string(&mut text)?;
        let said = last_error(&text);
        if status.code() == Some(2) {
            return Err(usage::refuse(said));
        }
        if text.starts_with("error: ") || text.contains("\nerror: ") {
            // The supervisor's own words say it all.
            bail!(said);
        }
        bail!("the cluster did not start: its supervisor ended ({status}): {said}\nits log is {}", log.display());
    }
    if args.ready_json {
        write_text(&line)?;
    } else {
        let ms = serde_json::from_str::<serde_json::Value>(&line).ok().and_then(|v| v["ms"].as_u64()).unwrap_or(0);
        say!("cluster {:?} is ready after {ms} ms; stop it with `lw down{}`", layout.name, layout.flags())?;
    }
    Ok(ExitCode::SUCCESS)
}
