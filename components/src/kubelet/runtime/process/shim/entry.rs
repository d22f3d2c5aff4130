//! The shim from its start to its end.

use std::{
    env,
    fs::File,
    io::{self, Write},
    mem::ManuallyDrop,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::ExitCode,
};

use rustix::fs::FileType;

use super::{
    super::{
        cri_log::LogWriter,
        identity::ProcessIdentity,
        layout::AttemptDir,
        lock::Lock,
        record::{self, Durability, FORMAT, Report, Spec, Started, Starting},
    },
    container,
    supervise::Supervisor,
    sys::{self, Signals},
};

/// Names the descriptor of the pipe whose end of file means that the cluster is gone.
pub const CLUSTER_PIPE_ENV: &str = "LW_CLUSTER_PIPE_FD";

/// Runs the container of an attempt's directory to its end. Standard input must be the container's lock, standard
/// output takes one [`Report`]. Must be called before the program starts any thread.
pub fn main(dir: &Path) -> ExitCode {
    let dir = AttemptDir::new(dir);
    let mut report = match sys::take_standard(1) {
        Ok(fd) => Some(File::from(fd)),
        Err(error) => {
            eprintln!("take the report pipe: {error}");
            return ExitCode::FAILURE;
        }
    };
    match run(&dir, &mut report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", dir.path().display());
            send(&mut report, &Report::Refused(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn run(dir: &AttemptDir, report: &mut Option<File>) -> io::Result<()> {
    let lock = Lock::inherited(sys::take_standard(0)?, &dir.lock())?
        .ok_or_else(|| io::Error::other("standard input is not the lock of this container"))?;
    // Out of the kubelet's session and group: what ends the kubelet must not end its containers.
    rustix::process::setsid()?;
    sys::set_process_name(c"lw-shim");
    sys::adopt_orphans()?;
    let signals = Signals::open()?;
    // Never closed: its end, seen from the other side, is the end of this process, and whoever waits for that must not
    // wait for less.
    let cluster = ManuallyDrop::new(cluster_pipe()?);
    let spec: Spec = record::read(&dir.spec())?.ok_or_else(|| io::Error::other("there is no spec.json"))?;
    if spec.format != FORMAT {
        return Err(io::Error::other(format!("spec.json has format {}, this shim knows {FORMAT}", spec.format)));
    }
    let log = LogWriter::open(&dir.log(), spec.log_bytes_max, spec.log_files_max)?;
    let shim = ProcessIdentity::current()?;
    record::write(&dir.starting(), &Starting { shim: shim.clone() }, Durability::Written)?;
    std::fs::write(dir.termination_log(), "")?;
    std::fs::create_dir_all(dir.root())?;
    let container = match container::start(dir, &spec, &lock) {
        Ok(container) => container,
        Err(error) => {
            let exit = container::start_failure(&spec, &error);
            record::write(&dir.exit(), &exit, Durability::Synced)?;
            send(report, &Report::Failed(exit));
            return Ok(());
        }
    };
    let started = Started { shim, process: container.identity.clone(), at: container.started_at };
    record::write(&dir.started(), &started, Durability::Written)?;
    send(report, &Report::Started(started));
    let exit =
        Supervisor { dir, spec: &spec, container, log, signals, cluster: cluster.as_ref().map(AsFd::as_fd) }.run()?;
    record::write(&dir.exit(), &exit, Durability::Synced)
}

/// Tells the kubelet, once. It may have died meanwhile; then the files tell its successor.
fn send(report: &mut Option<File>, message: &Report) {
    if let Some(mut pipe) = report.take()
        && let Ok(mut json) = serde_json::to_vec(message)
    {
        json.push(b'\n');
        let _ = pipe.write_all(&json);
    }
}

/// The pipe of the cluster, if this process was given one.
pub(super) fn cluster_pipe() -> io::Result<Option<OwnedFd>> {
    let Some(text) = env::var_os(CLUSTER_PIPE_ENV) else { return Ok(None) };
    let fd = text
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| io::Error::other(format!("{CLUSTER_PIPE_ENV} is not the number of a descriptor")))?;
    let Some(pipe) = sys::inherited(fd)? else {
        return Err(io::Error::other(format!("{CLUSTER_PIPE_ENV}={fd}: no such descriptor is open")));
    };
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&pipe)?.st_mode);
    if !matches!(kind, FileType::Fifo | FileType::Socket) {
        return Err(io::Error::other(format!("{CLUSTER_PIPE_ENV}={fd}: the descriptor is no pipe and no socket")));
    }
    Ok(Some(pipe))
}
