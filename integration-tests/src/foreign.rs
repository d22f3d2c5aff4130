//! Programs of others: where they are, what to do where they are not, and what they say.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// Says that a test is left out, since a program cannot be had.
///
/// # Panics
/// With `CI=true`, where all of them must be there.
pub fn missing(what: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{what}");
    println!("SKIPPED: {what}");
}

/// A Python that has these modules: `python3`, or what `LW_PYTHON` names (the program, or the folder of a virtual
/// environment). `None` = there is none, which has been said.
///
/// # Panics
/// As [`missing`].
pub fn python(modules: &str, requirements: &str) -> Option<PathBuf> {
    let named = std::env::var_os("LW_PYTHON").map(PathBuf::from);
    let python = match named {
        Some(path) if path.is_dir() => path.join("bin/python3"),
        Some(path) => path,
        None => PathBuf::from("python3"),
    };
    let fault = match Command::new(&python).args(["-c", &format!("import {modules}")]).output() {
        Ok(output) if output.status.success() => return Some(python),
        Ok(output) => String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned(),
        Err(error) => error.to_string(),
    };
    let advice = format!("pip install -r {requirements}, and name that Python by LW_PYTHON");
    missing(&format!("{}: {fault}: {advice}", python.display()));
    None
}

/// A running program whose lines are kept; killed when dropped.
#[derive(Debug)]
pub struct Told {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Told {
    /// Starts it without input.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(mut command: Command) -> Told {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (lines, notes) = (Arc::default(), Arc::default());
        follow(child.stdout.take().expect("piped"), Arc::clone(&lines));
        follow(child.stderr.take().expect("piped"), Arc::clone(&notes));
        Told { child, lines, notes }
    }

    /// What it has said on standard output, but for so many lines at the beginning.
    ///
    /// # Panics
    /// If a thread that keeps the lines has panicked; so do the others.
    pub fn lines(&self, from: usize) -> Vec<String> {
        self.lines.lock().expect("no panic")[from..].to_vec()
    }

    /// What it has said on standard error.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().expect("no panic").clone()
    }

    /// Stands still until [`Told::go_on`].
    pub async fn stand_still(&self, limit: Duration) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.child.id());
        eventually(limit, "the program stands still", || async {
            let text = std::fs::read_to_string(&stat).map_err(|error| error.to_string())?;
            let state = text.rsplit(") ").next().and_then(|rest| rest.chars().next());
            if state == Some('T') { Ok(()) } else { Err(format!("{state:?}")) }
        })
        .await;
    }

    /// Ends a standstill.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a child has a process id");
        kill_process(pid, signal).expect("the program lives");
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(from: impl Read + Send + 'static, into: Arc<Mutex<Vec<String>>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            into.lock().expect("no panic").push(line);
        }
    });
}
