//! Real kubectl in front of a whole cluster, or `lw` in its place.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::{Cluster, binary, foreign::missing};

/// Whether kubectl of this minor version or a later one is installed; where it is not, that has been said.
///
/// # Panics
/// As [`missing`].
pub fn kubectl_is_there(minor_at_least: u32) -> bool {
    let output = Command::new("kubectl").args(["version", "--client"]).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let minor = said.split("Client Version: v1.").nth(1).and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    let is_there = minor.is_some_and(|minor| minor >= minor_at_least);
    if !is_there {
        missing(&format!("kubectl 1.{minor_at_least} or later is not installed"));
    }
    is_there
}

/// A cluster and a person with kubectl, in a home of his own.
#[derive(Debug)]
pub struct Shell {
    /// The cluster.
    pub cluster: Cluster,
    program: PathBuf,
    home: tempfile::TempDir,
}

impl Shell {
    /// A cluster under `lw up` with further flags.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn start(flags: &[&str]) -> anyhow::Result<Shell> {
        Ok(Shell { cluster: Cluster::start(flags)?, program: "kubectl".into(), home: tempfile::tempdir()? })
    }

    /// The same with `lw` in place of kubectl.
    ///
    /// # Errors
    /// As [`Shell::start`].
    pub fn start_lw(flags: &[&str]) -> anyhow::Result<Shell> {
        Ok(Shell { program: binary::lw().to_owned(), ..Shell::start(flags)? })
    }

    /// The folder in which kubectl runs.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Writes a file into the home.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).expect("the folder can be written");
        path
    }

    /// kubectl with these arguments, without input.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let kubeconfig = self.cluster.data_dir().join("kubeconfig");
        command.args(args).env("KUBECONFIG", &kubeconfig).env("LW_KUBECONFIG", &kubeconfig);
        command.env("HOME", self.home.path());
        command.current_dir(self.home.path()).stdin(Stdio::null());
        command
    }

    /// Runs it, whatever comes of it.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("kubectl starts")
    }

    /// Standard output of a command that must succeed.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> String {
        let output = self.output(args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {args:?}: {out}{err}");
        out.into_owned()
    }

    /// Standard error of a command that must fail.
    ///
    /// # Panics
    /// If it succeeds.
    #[track_caller]
    pub fn refuse(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(!output.status.success(), "kubectl {args:?} must fail");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs it with this input; gives exit code and both outputs.
    ///
    /// # Panics
    /// If it cannot be started or does not take its input.
    pub fn talk(&self, args: &[&str], input: &[u8]) -> (Option<i32>, Vec<u8>, String) {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("piped");
        let input = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("no panic").expect("written");
        (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Applies these objects.
    ///
    /// # Panics
    /// If they are refused.
    #[track_caller]
    pub fn apply(&self, yaml: &str) {
        let (code, _, err) = self.talk(&["apply", "-f", "-"], yaml.as_bytes());
        assert_eq!(code, Some(0), "{err}");
    }
}
