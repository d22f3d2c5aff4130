//! A server and its controller manager, without nodes: what the controllers do to objects, seen from outside.

use std::{net::TcpListener, path::PathBuf};

use crate::Process;

/// The two processes; killed when dropped.
#[derive(Debug)]
pub struct Plane {
    folder: tempfile::TempDir,
    flags: Vec<String>,
    manager: Option<Process>,
    /// What the server is started with, each time.
    args: Vec<String>,
    server: Process,
}

impl Plane {
    /// Both, with further flags of the controller manager.
    ///
    /// # Errors
    /// If one of them does not get ready.
    pub fn start(flags: &[&str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let data = folder.path().join("data").display().to_string();
        let urls = "http://127.0.0.1:0";
        let args = ["server", "--data-dir", &data, "--listen-client-urls", urls, "--secure-port", &port];
        let server = Process::start("server", folder.path(), &args)?;
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut plane = Plane { folder, flags, manager: None, args, server };
        plane.start_manager()?;
        Ok(plane)
    }

    /// Starts the controller manager, in the slot it had before.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn start_manager(&mut self) -> anyhow::Result<()> {
        let text = |path: PathBuf| path.display().to_string();
        let (kubeconfig, lock) = (text(self.kubeconfig()), text(self.folder.path().join("manager.lock")));
        let mut args = vec!["controller-manager", "--kubeconfig", &kubeconfig];
        args.extend(["--leader-elect-identity", "manager", "--slot-lock", &lock]);
        args.extend(self.flags.iter().map(String::as_str));
        self.manager = Some(Process::start("controller-manager", self.folder.path(), &args)?);
        Ok(())
    }

    /// SIGKILL of both, and a start of both on what they left.
    ///
    /// # Errors
    /// If one of them does not get ready.
    pub fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        self.kill_manager();
        self.server.kill();
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        self.server = Process::start("server", self.folder.path(), &args)?;
        self.start_manager()
    }

    /// SIGKILL of the controller manager.
    pub fn kill_manager(&mut self) {
        self.manager = None;
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/kubeconfig")
    }
}
