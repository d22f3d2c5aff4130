//! Where the clients come from.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use listwatch_integration_tests::binary::example;
use listwatch_integration_tests::foreign::{self, missing};

/// A command that takes a kubeconfig as its last argument.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) args: Vec<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// `clients/go-k8s`, built once.
pub(super) fn go(args: &[&str]) -> Option<Program> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let into = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("go-k8s");
        let output = Command::new("go")
            .args(["build", "-o"])
            .arg(&into)
            .arg(".")
            .current_dir(folder().join("clients/go-k8s"))
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() { Ok(into) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    });
    match built {
        Ok(path) => Some(Program { path: path.clone(), args: args.iter().map(|arg| (*arg).to_owned()).collect() }),
        Err(fault) => {
            missing(&format!("go: {fault}: install Go 1.26 and see that it can fetch modules"));
            None
        }
    }
}

/// `clients/python-k8s`, with the Python that `LW_PYTHON` names or `python3`.
pub(super) fn python() -> Option<Program> {
    let path = foreign::python("kubernetes", "clients/python-k8s/requirements.txt")?;
    let script = folder().join("clients/python-k8s/config_maps.py");
    Some(Program { path, args: vec![script.display().to_string()] })
}

/// The example of this package.
pub(super) fn kube_rs(mode: &str) -> Program {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let path = BUILT.get_or_init(|| example("kube_rs")).clone();
    Program { path, args: vec![mode.to_owned()] }
}
