//! What must stand before anything starts: folders, the supervisor's lock, ports, certificates, kubeconfigs.

use std::{
    fs::File,
    io::{Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use listwatch_server::{
    clock::SystemClock,
    pki::{self, Identity},
};
use rustix::fs::{FlockOperation, flock};

use super::{command::UpArgs, place, ports, spec::Plan};
use crate::{
    cluster::{Layout, layout::ClusterFile, locate},
    programs::kubelet::node_capacity,
    terminal::tell,
    usage,
};

/// How long a new cluster waits for the processes of the one before: the usual grace of a pod, and ten seconds.
const OLD_PROCESSES_LIMIT: Duration = Duration::from_secs(40);
/// How often a lock that is held is tried again; the kernel offers no wait with a limit.
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// A cluster that may be started.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// What to start.
    pub(crate) plan: Plan,
    /// Held for the life of the supervisor.
    pub(crate) _lock: File,
    /// What a person should hear.
    pub(crate) notes: Vec<String>,
}

/// Prepares the cluster that the flags describe.
///
/// # Errors
/// If the cluster runs already, a port that was asked for is taken, or a file cannot be made: each names its cure.
pub(crate) fn prepare(args: &UpArgs) -> anyhow::Result<Prepared> {
    let layout = layout(args)?;
    layout.create()?;
    let lock = lock_cluster(&layout)?;
    locate::remember(&layout)?;
    wait_for_old_processes(&layout)?;
    let mut notes = Vec::new();
    let before = layout.read_cluster_file()?.unwrap_or_default();
    let (client_port, secure_port) = choose_ports(args, &before, &mut notes)?;
    let plan = Plan {
        layout,
        client_port,
        secure_port,
        nodes: (1..=args.nodes).map(|number| format!("node{number:02}")).collect(),
        runtime: args.runtime,
        node_capacity: args.node_capacity.clone(),
        schedulers: args.schedulers,
        controller_managers: args.controller_managers,
        durability: args.durability.clone(),
        log_filter: args.log_filter.clone(),
    };
    issue_identities(&plan)?;
    let file = ClusterFile {
        name: plan.layout.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        client_port,
        secure_port,
        nodes: args.nodes,
        schedulers: args.schedulers,
        controller_managers: args.controller_managers,
    };
    if file != before {
        plan.layout.write_cluster_file(&file)?;
    }
    Ok(Prepared { plan, _lock: lock, notes })
}

/// The cluster that the flags name, where nothing stands in its way. Changes nothing.
///
/// # Errors
/// Wrong usage, or a folder that belongs to something else.
pub(crate) fn layout(args: &UpArgs) -> anyhow::Result<Layout> {
    if let (Some(one), Some(other)) = (args.client_port, args.secure_port)
        && one == other
        && one != 0
    {
        let both = "both name this port: give each one of its own, or 0 for any free one";
        return Err(usage::refuse(format!("--client-port {one} and --secure-port {one}: {both}")));
    }
    args.runtime.kind()?;
    node_capacity(&args.node_capacity)?;
    let layout = locate::cluster(args.cluster.name.as_deref(), args.cluster.data_dir.as_deref())?;
    place::check(&layout)?;
    Ok(layout)
}

fn lock_cluster(layout: &Layout) -> anyhow::Result<File> {
    let path = layout.lock();
    let file = File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
    let mut file = file.with_context(|| format!("open {}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut pid = String::new();
        let _ = file.read_to_string(&mut pid);
        bail!(
            "cluster {:?} is already running (pid {}): see `lw status{flags}`, stop it with `lw down{flags}`, or start \
             another with --name",
            layout.name,
            pid.trim(),
            flags = layout.flags()
        );
    }
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

/// Waits for what a killed supervisor left behind; its processes are on their way out.
fn wait_for_old_processes(layout: &Layout) -> anyhow::Result<()> {
    let deadline = Instant::now() + OLD_PROCESSES_LIMIT;
    let mut said = false;
    for path in lock_files(layout)? {
        loop {
            let Ok(file) = File::open(&path) else { break };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                break;
            }
            if Instant::now() > deadline {
                bail!("{} is still held by {}: stop that process first", path.display(), holder(&path));
            }
            if !said {
                tell!("waiting for {} of the cluster before to end", holder(&path));
                said = true;
            }
            std::thread::sleep(LOCK_RETRY);
        }
    }
    Ok(())
}

/// The locks of the server, the slots and the kubelets.
fn lock_files(layout: &Layout) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = vec![layout.root.clone(), layout.server()];
    if let Ok(nodes) = std::fs::read_dir(layout.nodes()) {
        folders.extend(nodes.filter_map(|entry| Some(entry.ok()?.path())));
    }
    let mut locks = Vec::new();
    for entry in folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten() {
        let path = entry?.path();
        let is_lock = path.extension().is_some_and(|e| e == "lock") || path.file_name().is_some_and(|n| n == "lock");
        if is_lock && path != layout.lock() {
            locks.push(path);
        }
    }
    Ok(locks)
}

/// `lw (pid N)` of the process that holds a lock, as far as this user may see.
fn holder(lock: &Path) -> String {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.file_name()));
    for pid in processes.filter_map(|name| name.into_string().ok()).filter(|n| n.bytes().all(|b| b.is_ascii_digit())) {
        if pid == std::process::id().to_string() {
            continue;
        }
        let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        if files.filter_map(|f| std::fs::read_link(f.ok()?.path()).ok()).any(|target| target == lock) {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<_> = command.split(|b| *b == 0).take(2).map(String::from_utf8_lossy).collect();
            return format!("{} (pid {pid})", words.join(" "));
        }
    }
    "an unknown process".to_owned()
}

fn choose_ports(args: &UpArgs, before: &ClusterFile, notes: &mut Vec<String>) -> anyhow::Result<(u16, u16)> {
    let wishes = [
        ports::Wish { flag: "--client-port", asked: args.client_port, before: before.client_port, usual: 2379 },
        ports::Wish { flag: "--secure-port", asked: args.secure_port, before: before.secure_port, usual: 6443 },
    ];
    let mut chosen = Vec::new();
    for wish in &wishes {
        let choice = ports::choose(wish, &chosen)?;
        if let Some(taken) = choice.instead_of {
            let owner = ports::owner(taken).map_or_else(String::new, |owner| format!(" by {owner}"));
            notes.push(format!("port {taken} is taken{owner}: using {} ({})", choice.port, wish.flag));
        }
        chosen.push(choice.port);
    }
    Ok((chosen[0], chosen[1]))
}

fn issue_identities(plan: &Plan) -> anyhow::Result<()> {
    let pki = pki::ensure(plan.layout.pki(), &SystemClock::new())?;
    let mut identities = vec![
        Identity::Server(Vec::new()),
        Identity::KubeletClient,
        Identity::Admin,
        Identity::ControllerManager,
        Identity::Scheduler,
    ];
    identities.extend(plan.nodes.iter().cloned().map(Identity::Node));
    pki.signing_key()?;
    let server = format!("https://127.0.0.1:{}", plan.secure_port);
    for credentials in pki.issue_all(&identities)? {
        let path = match &credentials.identity {
            Identity::Server(_) | Identity::KubeletClient => continue,
            Identity::Admin => plan.layout.kubeconfig(),
            Identity::ControllerManager => plan.component_kubeconfig("controller-manager"),
            Identity::Scheduler => plan.component_kubeconfig("scheduler"),
            Identity::Node(node) => plan.node_kubeconfig(node),
        };
        let cluster = format!("listwatch-{}", plan.layout.name);
        pki::kubeconfig::write(&path, &cluster, &server, pki.ca_pem(), &credentials)?;
    }
    Ok(())
}
