//! An `lw server` on a data directory of its own, on free ports.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use crate::Process;

/// A server under test. The folder is removed with it.
#[derive(Debug)]
pub struct Server {
    folder: tempfile::TempDir,
    flags: Vec<String>,
    process: Process,
}

impl Server {
    /// A fresh server with further flags; ports are chosen by the system.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn start(flags: &[&str]) -> anyhow::Result<Server> {
        let folder = tempfile::tempdir()?;
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let process = launch(&folder, &flags)?;
        Ok(Server { folder, flags, process })
    }

    /// SIGKILL and a start on the same data, on new ports.
    ///
    /// # Errors
    /// If it does not get ready again.
    pub fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        self.process.kill();
        self.process = launch(&self.folder, &self.flags)?;
        Ok(())
    }

    /// SIGKILL and a start on the same data and the same ports, as clients that hold on to an address need it.
    ///
    /// # Errors
    /// If it does not get ready again.
    pub fn kill_and_restart_in_place(&mut self) -> anyhow::Result<()> {
        let args = self.arguments_in_place();
        self.process.kill();
        self.start_with(&args)
    }

    /// SIGTERM, a clean end, and a start on the same data and the same ports.
    ///
    /// # Errors
    /// If it does not end cleanly or does not get ready again.
    pub fn stop_and_restart_in_place(&mut self) -> anyhow::Result<()> {
        let args = self.arguments_in_place();
        self.process.stop()?;
        self.start_with(&args)
    }

    fn start_with(&mut self, args: &[String]) -> anyhow::Result<()> {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.process = Process::start("server", self.folder.path(), &args)?;
        Ok(())
    }

    /// The arguments of a start, with the ports that the running process has.
    fn arguments_in_place(&self) -> Vec<String> {
        let mut args = arguments(&self.folder, &self.flags);
        let port = self.secure_address().port().to_string();
        for (flag, value) in [("--listen-client-urls", self.endpoint()), ("--secure-port", port)] {
            let place = args.iter().position(|arg| arg == flag).expect("every server gets this flag");
            args[place + 1] = value;
        }
        args
    }

    /// Starts on the same data and sends SIGKILL after a moment, whether it is ready by then or not.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn kill_while_starting(&mut self, after: Duration) -> anyhow::Result<()> {
        self.process.kill();
        let mut child = Command::new(crate::binary::lw())
            .args(arguments(&self.folder, &self.flags))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // The moment of the kill is what the test is about, so this is no wait for a condition.
        std::thread::sleep(after);
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// SIGTERM, a clean end, and a start on the same data, on new ports.
    ///
    /// # Errors
    /// If it does not end cleanly or does not get ready again.
    pub fn stop_and_restart(&mut self) -> anyhow::Result<()> {
        self.process.stop()?;
        self.process = launch(&self.folder, &self.flags)?;
        Ok(())
    }

    /// The running process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Where etcd clients connect.
    pub fn client_address(&self) -> SocketAddr {
        self.process.address("client")
    }

    /// `http://127.0.0.1:PORT` for etcd clients.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.client_address())
    }

    /// Where the resource API listens by TLS.
    pub fn secure_address(&self) -> SocketAddr {
        self.process.address("secure")
    }

    /// The address of that name in the ready line: `insecure`, where a flag asked for it.
    ///
    /// # Panics
    /// If the ready line has none.
    pub fn address(&self, name: &str) -> SocketAddr {
        self.process.address(name)
    }

    /// What it has logged, over all its starts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.process.log).unwrap_or_default()
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

fn launch(folder: &tempfile::TempDir, flags: &[String]) -> anyhow::Result<Process> {
    let args = arguments(folder, flags);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Process::start("server", folder.path(), &args)
}

fn arguments(folder: &tempfile::TempDir, flags: &[String]) -> Vec<String> {
    let data = folder.path().join("data");
    let data = data.to_str().expect("a temporary folder's path is text");
    let args = ["server", "--data-dir", data, "--listen-client-urls", "http://127.0.0.1:0", "--secure-port", "0"];
    // A server alone has no controller that makes the accounts.
    let alone = flags
        .iter()
        .all(|flag| !flag.ends_with("-admission-plugins"))
        .then(|| ["--disable-admission-plugins", "ServiceAccount"].map(str::to_owned));
    args.into_iter().map(str::to_owned).chain(alone.into_iter().flatten()).chain(flags.iter().cloned()).collect()
}
