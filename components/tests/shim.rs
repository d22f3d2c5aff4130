//! Real shims with real processes: start, end, stop, death of the kubelet, two starters, end of the cluster.
//!
//! This program has a main of its own because it is called again as the shim, as a built-in and as a kubelet that can
//! be killed. Run as a test it takes names (or parts of them) of the tests to run.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    os::fd::{AsRawFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use listwatch_components::kubelet::runtime::process::{
    ProcessRuntime,
    attempt::{self, Attempt},
    builtin::{self, Builtin},
    identity::ProcessIdentity,
    launch::{self, LaunchError, Launched, Shim},
    layout::{ContainerDir, Root},
    lock::Lock,
    record::{self, Ending, Exit, FORMAT, Mount, Spec, Started, Termination},
    shim,
};
use listwatch_components::kubelet::runtime::seam::{
    ContainerConfig, ExecOutput, Interaction, Place, PodConfig, Runtime, Session,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
};
use tokio::io::AsyncReadExt;

/// Nothing here takes longer than this on a machine that works.
const LIMIT: Duration = Duration::from_secs(20);

type Test = fn(&Path);

const GRACE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    // A role has more words; one word alone is a filter, as with any test program.
    match args.get(1).filter(|_| args.len() > 2).map(String::as_str) {
        Some("shim") => shim::main(Path::new(&args[2])),
        Some("builtin") => builtin::run(&Builtin::parse(&args[2..]).expect("a built-in")),
        Some("escort") => shim::escort(args[2].parse().expect("a number")),
        Some("commander") => commander(Path::new(&args[2])),
        Some("kubelet") => kubelet(Path::new(&args[2]), &args[3]),
        _ => run_tests(&args[1..]),
    }
}

/// A kubelet that starts one container, says what came of it and then hangs until it is killed.
fn kubelet(root: &Path, script: &str) -> ExitCode {
    let dir = container(root);
    match start(&dir, script) {
        Ok((_, Launched::Running { started, shim })) => {
            println!("{}", serde_json::to_string(&started).expect("plain data"));
            wait_for_end(&shim);
            ExitCode::SUCCESS
        }
        Ok((_, Launched::Failed(exit))) => {
            println!("failed {exit:?}");
            ExitCode::FAILURE
        }
        Err(LaunchError::Held { .. }) => {
            println!("held");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("error {error}");
            ExitCode::FAILURE
        }
    }
}

/// Leaves one process in a session of its own and one that has lost its parent, and tells their numbers.
const LEAVES: &str = "setsid sleep 600 & echo $!; sh -c 'setsid sleep 600 & echo $!'";

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A runtime with one container that runs.
async fn with_container(root: &Path) -> ProcessRuntime {
    let runtime = ProcessRuntime::open(Root::new(root), this_program()).await.expect("usable");
    let pod = PodConfig {
        uid: "uid-1".into(),
        namespace: "default".into(),
        name: "web".into(),
        host_network: true,
        grace: GRACE,
    };
    runtime.prepare(&pod).await.expect("prepared");
    let config = ContainerConfig {
        name: "app".into(),
        image: "busybox".into(),
        command: ["sh", "-c", "sleep 600"].map(String::from).into(),
        args: Vec::new(),
        env: Vec::new(),
        working_dir: None,
        ports: Vec::new(),
        mounts: Vec::new(),
        termination: None,
        attempt_min: 0,
        hash: "h".into(),
        place: Place::default(),
    };
    runtime.start("uid-1", &config).await.expect("started");
    runtime
}

/// Starts a command beside the container, and reads from it the numbers of two processes.
async fn command(runtime: &ProcessRuntime, script: &str) -> (Session, Vec<ProcessIdentity>) {
    let command = ["sh", "-c", script].map(String::from).into();
    let asked = Interaction { command, stdout: true, ..Interaction::default() };
    let mut session = runtime.interact("uid-1", "app", &asked).await.expect("a container").expect("started");
    let mut text = String::new();
    let out = session.stdout.as_mut().expect("asked for");
    while text.lines().count() < 2 || !text.ends_with('\n') {
        let mut buffer = [0; 64];
        let n = out.read(&mut buffer).await.expect("readable");
        assert!(n > 0, "{text:?}");
        text.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    let left = text.lines().map(|pid| ProcessIdentity::of(pid.parse().expect("a number")).expect("it runs")).collect();
    (session, left)
}

/// A kubelet with a command that has ended and one that runs; says what they left running and hangs until it is killed.
fn commander(root: &Path) -> ExitCode {
    tokio().block_on(async {
        let runtime = with_container(root).await;
        let (mut ended, mut left) = command(&runtime, LEAVES).await;
        ended.process.wait().await.expect("ended");
        let (mut running, of_running) = command(&runtime, &format!("{LEAVES}; sleep 600")).await;
        left.extend(of_running);
        println!("{}", serde_json::to_string(&left).expect("plain data"));
        running.process.wait().await.expect("ended");
        ExitCode::FAILURE
    })
}

fn run_tests(filters: &[String]) -> ExitCode {
    let tests: &[(&str, Test)] = &[
        ("an_exit_code_and_the_output_are_kept", an_exit_code_and_the_output_are_kept),
        ("a_signal_counts_as_128_more", a_signal_counts_as_128_more),
        ("a_program_that_is_not_there_is_a_start_error", a_program_that_is_not_there_is_a_start_error),
        ("a_start_takes_milliseconds", a_start_takes_milliseconds),
        ("stop_gives_the_grace_and_then_kills_the_group", stop_gives_the_grace_and_then_kills_the_group),
        ("a_second_stop_shortens_the_grace", a_second_stop_shortens_the_grace),
        ("descendants_end_with_the_first_process", descendants_end_with_the_first_process),
        ("a_container_outlives_its_kubelet_and_is_found_again", a_container_outlives_its_kubelet_and_is_found_again),
        ("of_many_starters_one_starts", of_many_starters_one_starts),
        ("the_end_of_the_cluster_stops_the_container", the_end_of_the_cluster_stops_the_container),
        ("a_dead_shim_takes_its_container_along", a_dead_shim_takes_its_container_along),
        ("an_intent_without_a_shim_is_taken_away", an_intent_without_a_shim_is_taken_away),
        ("a_shim_without_the_lock_refuses", a_shim_without_the_lock_refuses),
        ("volumes_are_seen_at_their_mount_paths", volumes_are_seen_at_their_mount_paths),
        ("volumes_need_no_root", volumes_need_no_root),
        (
            "what_a_command_leaves_running_ends_with_the_container",
            what_a_command_leaves_running_ends_with_the_container,
        ),
        (
            "a_command_that_nobody_follows_ends_with_all_it_started",
            a_command_that_nobody_follows_ends_with_all_it_started,
        ),
        ("commands_end_with_their_kubelet", commands_end_with_their_kubelet),
        ("last_words_are_kept", last_words_are_kept),
        ("runs_are_numbered_and_old_ones_forgotten", runs_are_numbered_and_old_ones_forgotten),
    ];
    let filters: Vec<_> = filters.iter().filter(|word| !word.starts_with('-')).collect();
    let mut failed = 0;
    for (name, test) in tests {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        let root = tempfile::tempdir().expect("temporary directory");
        let outcome = catch_unwind(AssertUnwindSafe(|| test(root.path())));
        failed += usize::from(outcome.is_err());
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        // Nothing of a test may stay behind, whatever came of it.
        let _ = attempt::find(&container(root.path()));
        let _ = listwatch_components::kubelet::runtime::process::lock::take_by_force(&container(root.path()).lock());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn this_program() -> Shim {
    Shim { program: std::env::current_exe().expect("a path"), ..Shim::default() }
}

fn container(root: &Path) -> ContainerDir {
    Root::new(root).pod("uid-1").container("app")
}

fn spec(dir: &ContainerDir, attempt: u32, script: &str) -> Spec {
    Spec {
        format: FORMAT,
        uid: "uid-1".into(),
        namespace: "default".into(),
        pod: "web".into(),
        container: "app".into(),
        attempt,
        image: "busybox".into(),
        hash: "h".into(),
        program: PathBuf::from("/bin/sh"),
        name: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("GREETING".into(), "hello".into())],
        cwd: dir.work(),
        grace_millis: 30_000,
        log_bytes_max: 1 << 20,
        log_files_max: 2,
        mounts: mounts_of(&std::env::var(MOUNTS).unwrap_or_default()),
        termination: None,
    }
}

/// Tells a test's kubelet, a process of its own, what to mount: `SOURCE:TARGET,…`.
const MOUNTS: &str = "TEST_MOUNTS";

fn mounts_of(text: &str) -> Vec<Mount> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once(':'));
    pairs.map(|(source, target)| Mount { source: source.into(), target: target.into(), read_only: true }).collect()
}

fn start(dir: &ContainerDir, script: &str) -> Result<(Spec, Launched), LaunchError> {
    launch::launch(&this_program(), dir, 0, |attempt| spec(dir, attempt, script))
}

fn run(dir: &ContainerDir, script: &str) -> (Started, OwnedFd) {
    match start(dir, script).expect("started") {
        (_, Launched::Running { started, shim }) => (started, shim),
        (_, Launched::Failed(exit)) => panic!("{exit:?}"),
    }
}

/// Waits for the end of the process behind a handle.
fn wait_for_end(handle: &OwnedFd) {
    let limit = Timespec { tv_sec: i64::try_from(LIMIT.as_secs()).expect("small"), tv_nsec: 0 };
    let ended = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&limit)).expect("pollable");
    assert_eq!(ended, 1, "the process must end in time");
    launch::reap(handle).expect("reapable");
}

fn last(dir: &ContainerDir) -> Attempt {
    attempt::find(dir).expect("readable").expect("a run").last
}

fn exit_after(dir: &ContainerDir, shim: &OwnedFd) -> Exit {
    wait_for_end(shim);
    last(dir).exit.expect("an exit")
}

/// Waits until the log of the first run holds the text.
fn wait_for_log(dir: &ContainerDir, text: &str) {
    let begin = Instant::now();
    while !fs::read_to_string(dir.attempt(0).log()).unwrap_or_default().contains(text) {
        assert!(begin.elapsed() < LIMIT, "{text:?} must appear in the log");
        std::thread::yield_now();
    }
}

fn wait_until_dead(process: &ProcessIdentity) {
    if let Some(handle) = process.open().expect("readable") {
        let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
        // Signals of children interrupt it.
        let ended = rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit)));
        assert_eq!(ended.expect("pollable"), 1);
    }
}

fn an_exit_code_and_the_output_are_kept(root: &Path) {
    let dir = container(root);
    let (_, shim) = run(&dir, "echo $GREETING; echo oops >&2; printf tail; exit 7");
    let exit = exit_after(&dir, &shim);
    assert_eq!((exit.code, exit.signal, exit.ending), (7, None, Ending::Own));
    assert!(exit.started_at.expect("started") <= exit.finished_at);
    let log = fs::read_to_string(dir.attempt(0).log()).expect("readable");
    let mut lines: Vec<_> = log.lines().map(|line| line.split_once(' ').expect("a time").1).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["stderr F oops", "stdout F hello", "stdout F tail"]);
    assert!(Lock::try_take(&dir.lock()).expect("usable").is_some(), "nothing holds the lock any more");
}

fn a_signal_counts_as_128_more(root: &Path) {
    let dir = container(root);
    let (_, shim) = run(&dir, "kill -9 $$");
    let exit = exit_after(&dir, &shim);
    assert_eq!((exit.code, exit.signal, exit.ending), (137, Some(9), Ending::Own));
}

fn a_program_that_is_not_there_is_a_start_error(root: &Path) {
    let dir = container(root);
    let started = launch::launch(&this_program(), &dir, 0, |attempt| Spec {
        program: PathBuf::from("/no/such/program"),
        ..spec(&dir, attempt, "")
    });
    let Ok((_, Launched::Failed(exit))) = started else { panic!("{started:?}") };
    assert_eq!((exit.code, exit.ending), (128, Ending::StartError));
    assert!(exit.message.contains("/no/such/program") && exit.message.contains("No such file"), "{}", exit.message);
    assert_eq!(last(&dir).exit, Some(exit));
}

fn a_start_takes_milliseconds(root: &Path) {
    let dir = container(root);
    let config = volume(root, "config");
    for (what, target) in
        [("plain", None), ("with a volume", Some("/etc/listwatch-test")), ("at the root", Some("/lw-test"))]
    {
        let mut best = LIMIT;
        for _ in 0..5 {
            let source = config.clone();
            let mounts = target.map(|target| Mount { source, target: target.into(), read_only: true });
            let begin = Instant::now();
            let mounts = mounts.into_iter().collect();
            let launched = launch::launch(&this_program(), &dir, 0, |n| Spec { mounts, ..spec(&dir, n, "true") });
            best = best.min(begin.elapsed());
            let Ok((_, Launched::Running { shim, .. })) = launched else { panic!("{launched:?}") };
            exit_after(&dir, &shim);
        }
        println!("start of a container, {what}: {best:?}");
        assert!(best < Duration::from_millis(250), "{what}: {best:?}");
    }
}

fn stop_gives_the_grace_and_then_kills_the_group(root: &Path) {
    let dir = container(root);
    let (_, shim) = run(&dir, "trap 'echo asked' TERM; echo up; while :; do sleep 60 & wait; done");
    wait_for_log(&dir, "up");
    let begin = Instant::now();
    launch::stop(&dir.attempt(0), &shim, Duration::from_millis(300)).expect("asked");
    let exit = exit_after(&dir, &shim);
    assert!(begin.elapsed() >= Duration::from_millis(300), "the grace is given");
    assert_eq!((exit.code, exit.ending), (137, Ending::Stopped));
    wait_for_log(&dir, "asked");
}

fn a_second_stop_shortens_the_grace(root: &Path) {
    let dir = container(root);
    let (_, shim) = run(&dir, "trap 'echo asked' TERM; echo up; while :; do sleep 60 & wait; done");
    wait_for_log(&dir, "up");
    launch::stop(&dir.attempt(0), &shim, Duration::from_secs(3600)).expect("asked");
    wait_for_log(&dir, "asked");
    launch::stop(&dir.attempt(0), &shim, Duration::from_millis(10)).expect("asked");
    assert_eq!(exit_after(&dir, &shim).code, 137);
}

fn descendants_end_with_the_first_process(root: &Path) {
    let dir = container(root);
    // One in the group, one that has left group and session, and the first process is gone at once.
    let (_, shim) =
        run(&dir, "sleep 600 & echo group $!; setsid sh -c 'echo own $$; exec sleep 600' & sleep 0.2; exit 3");
    let exit = exit_after(&dir, &shim);
    assert_eq!(exit.code, 3);
    let log = fs::read_to_string(dir.attempt(0).log()).expect("readable");
    let pids: Vec<i32> = log.lines().filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
    assert_eq!(pids.len(), 2, "{log}");
    for pid in pids {
        assert!(ProcessIdentity::of(pid).is_err(), "{pid} is gone");
    }
}

fn what_a_command_leaves_running_ends_with_the_container(root: &Path) {
    tokio().block_on(async {
        let runtime = with_container(root).await;
        let (mut session, left) = command(&runtime, &format!("{LEAVES}; exit 3")).await;
        assert_eq!(session.process.wait().await.expect("ended"), 3);
        drop(session);
        let again =
            runtime.exec("uid-1", "app", &["sh", "-c", "echo out; echo err >&2; exit 4"].map(String::from)).await;
        assert_eq!(again.expect("run"), ExecOutput { code: 4, text: "out\nerr\n".into() });
        for process in &left {
            assert!(process.is_alive().expect("readable"), "a background job is the container's");
        }
        runtime.stop("uid-1", "app", Duration::ZERO).await.expect("asked");
        left.iter().for_each(wait_until_dead);
    });
}

fn a_command_that_nobody_follows_ends_with_all_it_started(root: &Path) {
    tokio().block_on(async {
        let runtime = with_container(root).await;
        let (session, left) = command(&runtime, &format!("{LEAVES}; sleep 600")).await;
        drop(session);
        left.iter().for_each(wait_until_dead);
        runtime.stop("uid-1", "app", Duration::ZERO).await.expect("asked");
    });
}

fn commands_end_with_their_kubelet(root: &Path) {
    let mut kubelet = Command::new(std::env::current_exe().expect("a path"));
    kubelet.arg("commander").arg(root).stdout(Stdio::piped());
    let mut kubelet = kubelet.spawn().expect("started");
    let mut line = String::new();
    BufReader::new(kubelet.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let left: Vec<ProcessIdentity> = serde_json::from_str(&line).expect(&line);
    assert_eq!(left.len(), 4);
    kubelet.kill().expect("killed");
    kubelet.wait().expect("reaped");
    left.iter().for_each(wait_until_dead);
    assert!(last(&container(root)).exit.is_none(), "the container itself goes on");
}

fn spawn_kubelet(root: &Path, script: &str, pipe: Option<&OwnedFd>) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.arg("kubelet").arg(root).arg(script).stdout(Stdio::piped());
    if let Some(pipe) = pipe {
        command.env(shim::CLUSTER_PIPE_ENV, pipe.as_raw_fd().to_string());
    }
    let mut child = command.spawn().expect("started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    (child, line.trim().to_owned())
}

fn a_container_outlives_its_kubelet_and_is_found_again(root: &Path) {
    let dir = container(root);
    let (mut kubelet, line) = spawn_kubelet(root, "echo up; sleep 600", None);
    let started: Started = serde_json::from_str(&line).expect(&line);
    kubelet.kill().expect("killed");
    kubelet.wait().expect("reaped");
    assert!(started.process.is_alive().expect("readable"));
    let found = attempt::find(&dir).expect("readable").expect("a run");
    assert_eq!(found.last.started.as_ref(), Some(&started), "the same process");
    assert!(matches!(start(&dir, "true"), Err(LaunchError::Held { .. })), "it is never started beside itself");
    let shim = found.shim.expect("a living shim");
    launch::stop(&dir.attempt(0), &shim, GRACE).expect("asked");
    let exit = exit_after(&dir, &shim);
    assert_eq!((exit.code, exit.ending), (143, Ending::Stopped));
}

fn of_many_starters_one_starts(root: &Path) {
    let dir = container(root);
    for round in 0..5 {
        let starters: Vec<_> = (0..6)
            .map(|_| {
                Command::new(std::env::current_exe().expect("a path"))
                    .arg("kubelet")
                    .arg(root)
                    .arg("sleep 600")
                    .stdout(Stdio::piped())
                    .spawn()
                    .expect("started")
            })
            .collect();
        let mut lines = Vec::new();
        let mut children = Vec::new();
        for mut starter in starters {
            let mut line = String::new();
            BufReader::new(starter.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
            lines.push(line.trim().to_owned());
            children.push(starter);
        }
        assert_eq!(lines.iter().filter(|line| *line == "held").count(), 5, "round {round}: {lines:?}");
        for mut child in children {
            let _ = child.kill();
            child.wait().expect("reaped");
        }
        let shim = attempt::find(&dir).expect("readable").expect("a run").shim.expect("one lives");
        launch::stop(&dir.attempt(round), &shim, GRACE).expect("asked");
        exit_after(&dir, &shim);
    }
}

fn the_end_of_the_cluster_stops_the_container(root: &Path) {
    let dir = container(root);
    let (read, write) = rustix::pipe::pipe().expect("a pipe");
    rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::CLOEXEC).expect("kept from children");
    let (mut kubelet, line) =
        spawn_kubelet(root, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 60 & wait; done", Some(&read));
    let started: Started = serde_json::from_str(&line).expect(&line);
    let shim = started.shim.open().expect("readable").expect("alive");
    wait_for_log(&dir, "up");
    kubelet.kill().expect("killed");
    kubelet.wait().expect("reaped");
    assert!(started.process.is_alive().expect("readable"), "the kubelet's death alone is not the cluster's");
    drop(write);
    let exit = exit_after(&dir, &shim);
    assert_eq!((exit.code, exit.ending), (0, Ending::ClusterGone));
    wait_for_log(&dir, "bye");
}

fn a_dead_shim_takes_its_container_along(root: &Path) {
    let dir = container(root);
    let (started, shim) = run(&dir, "setsid sleep 600 & echo child $!; wait");
    wait_for_log(&dir, "child");
    kill_process(Pid::from_raw(started.shim.pid).expect("a pid"), Signal::KILL).expect("killed");
    wait_for_end(&shim);
    wait_until_dead(&started.process);
    let exit = last(&dir).exit.expect("an exit");
    assert_eq!((exit.code, exit.ending), (137, Ending::Lost));
    let log = fs::read_to_string(dir.attempt(0).log()).expect("readable");
    let stray: i32 = log.trim().rsplit(' ').next().and_then(|pid| pid.parse().ok()).expect("a pid");
    let stray_lives = ProcessIdentity::of(stray).is_ok_and(|stray| stray.is_alive().expect("readable"));
    assert!(!stray_lives, "who left the session is ended too");
    assert!(matches!(start(&dir, "true").expect("free again"), (Spec { attempt: 1, .. }, Launched::Running { .. })));
}

fn an_intent_without_a_shim_is_taken_away(root: &Path) {
    let dir = container(root);
    fs::create_dir_all(dir.attempt(0).path()).expect("created");
    record::write(&dir.attempt(0).spec(), &spec(&dir, 0, "true"), record::Durability::Written).expect("written");
    assert!(attempt::find(&dir).expect("readable").is_none(), "it never ran");
    let (spec, _) = start(&dir, "true").expect("started");
    assert_eq!(spec.attempt, 0);
}

fn a_shim_without_the_lock_refuses(root: &Path) {
    let dir = container(root);
    fs::create_dir_all(dir.attempt(0).path()).expect("created");
    File::create(dir.lock()).expect("created");
    record::write(&dir.attempt(0).spec(), &spec(&dir, 0, "true"), record::Durability::Written).expect("written");
    let held = Lock::try_take(&dir.lock()).expect("usable").expect("free");
    let another = File::options().read(true).write(true).open(dir.lock()).expect("opened");
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["shim".as_ref(), dir.attempt(0).path().as_os_str()])
        .stdin(Stdio::from(another))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut report = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut report).expect("readable");
    assert!(!child.wait().expect("reaped").success());
    assert!(report.contains("refused") && report.contains("lock"), "{report}");
    assert!(!dir.attempt(0).starting().exists(), "nothing was begun");
    drop(held);
}

/// A volume with one file in it.
fn volume(root: &Path, name: &str) -> PathBuf {
    let dir = root.join(name);
    fs::create_dir_all(&dir).expect("made");
    fs::write(dir.join("file"), format!("from {name}\n")).expect("written");
    dir
}

fn volumes_are_seen_at_their_mount_paths(root: &Path) {
    let dir = container(root);
    let (config, data, file) = (volume(root, "config"), volume(root, "data"), volume(root, "single").join("file"));
    let mount =
        |source: &Path, target: &str, read_only| Mount { source: source.into(), target: target.into(), read_only };
    let mounts = vec![
        mount(&data, "/listwatch-test/deep/data", false),
        mount(&config, "/etc/listwatch-test", true),
        mount(&config, "/listwatch-test/deep/data/inside", true),
        mount(&file, "/etc/listwatch-test.conf", true),
        // A place that is there already, and a link on the way.
        mount(&data, "/var/lock", false),
    ];
    let script = "
        cat /etc/listwatch-test/file /listwatch-test/deep/data/file /listwatch-test/deep/data/inside/file
        cat /etc/listwatch-test.conf /var/lock/file
        echo new > /listwatch-test/deep/data/written || exit 3
        echo new 2>/dev/null > /etc/listwatch-test/written && exit 4
        test -c /dev/null && test -d /proc/self && test -e /etc/passwd || exit 5
        pwd";
    let launched = launch::launch(&this_program(), &dir, 0, |attempt| Spec { mounts, ..spec(&dir, attempt, script) });
    let Ok((_, Launched::Running { shim, .. })) = launched else { panic!("{launched:?}") };
    let exit = exit_after(&dir, &shim);
    let log = fs::read_to_string(dir.attempt(0).log()).expect("a log");
    assert_eq!(exit.code, 0, "{log}");
    let text: Vec<_> = log.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).collect();
    let work = dir.work().display().to_string();
    assert_eq!(text, ["from config", "from data", "from config", "from single", "from data", &work]);
    assert_eq!(fs::read_to_string(data.join("written")).expect("written through"), "new\n");
    assert!(!Path::new("/listwatch-test").exists() && !Path::new("/etc/listwatch-test").exists());
}

fn volumes_need_no_root(root: &Path) {
    const NOBODY: u32 = 65534;
    let config = volume(root, "config");
    if rustix::process::getuid().is_root() {
        for path in [root, &config] {
            rustix::fs::chown(path, Some(rustix::fs::Uid::from_raw(NOBODY)), Some(rustix::fs::Gid::from_raw(NOBODY)))
                .expect("root may");
        }
    }
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command
        .arg("kubelet")
        .arg(root)
        .arg("cat /etc/listwatch-test/file; id -u; kill -0 $PPID && sleep 60")
        .env(MOUNTS, format!("{}:/etc/listwatch-test", config.display()))
        .stdout(Stdio::piped());
    if rustix::process::getuid().is_root() {
        use std::os::unix::process::CommandExt;
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut kubelet = command.spawn().expect("spawned");
    let mut line = String::new();
    BufReader::new(kubelet.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
    let started: Started = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let dir = container(root);
    let limit = Instant::now() + LIMIT;
    let logged = loop {
        let log = fs::read_to_string(dir.attempt(0).log()).unwrap_or_default();
        if log.lines().count() >= 2 || Instant::now() > limit {
            break log;
        }
        std::thread::yield_now();
    };
    assert!(logged.contains("from config"), "{logged}");
    let uid = if rustix::process::getuid().is_root() { NOBODY } else { rustix::process::getuid().as_raw() };
    assert!(logged.contains(&format!(" F {uid}\n")), "it keeps its user: {logged}");
    // The container dies with its shim there too.
    let container = started.process.open().expect("readable").expect("it runs");
    kill_process(Pid::from_raw(started.shim.pid).expect("a number"), Signal::KILL).expect("killed");
    wait_for_end(&container);
    let _ = kubelet.kill();
    let _ = kubelet.wait();
}

fn last_words_are_kept(root: &Path) {
    let dir = container(root);
    let run = |script: &str, or_log| {
        let path = PathBuf::from("/dev/termination-log");
        let termination = Some(Termination { path, or_log });
        let launched =
            launch::launch(&this_program(), &dir, 0, |attempt| Spec { termination, ..spec(&dir, attempt, script) });
        let Ok((_, Launched::Running { shim, .. })) = launched else { panic!("{launched:?}") };
        exit_after(&dir, &shim);
        last(&dir).message
    };
    assert_eq!(run("echo farewell > /dev/termination-log; exit 1", false), "farewell\n");
    assert_eq!(run("echo on the log; exit 1", true), "on the log\n");
    assert_eq!(run("echo on the log; exit 0", true), "");
    assert_eq!(run("echo on the log; exit 1", false), "");
}

fn runs_are_numbered_and_old_ones_forgotten(root: &Path) {
    let dir = container(root);
    for round in 0..4 {
        let (_, shim) = run(&dir, "exit 1");
        exit_after(&dir, &shim);
        let expected: Vec<u32> =
            (round - 1i64).max(0).try_into().map_or(vec![], |from: u32| (from..=round as u32).collect());
        assert_eq!(dir.attempts().expect("readable"), expected);
    }
    let found = attempt::find(&dir).expect("readable").expect("a run");
    assert_eq!(found.previous.expect("kept").spec.attempt, 2);
    let (spec, _) = launch::launch(&this_program(), &dir, 9, |n| spec(&dir, n, "true")).expect("started");
    assert_eq!(spec.attempt, 9, "what the API has counted is not forgotten with the files");
}
