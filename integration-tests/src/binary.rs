//! The `lw` under test: built once by this very cargo, or named by `LW_BIN`.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The path of the `lw` binary; builds it first, in the profile of the test that asks.
///
/// # Panics
/// If the build fails: no black-box test can run then.
pub fn lw() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| std::env::var_os("LW_BIN").map_or_else(build, PathBuf::from))
}

/// The path of a program among the examples of this package; builds it first.
///
/// # Panics
/// If the build fails.
pub fn example(name: &str) -> PathBuf {
    cargo_build(&["--package", env!("CARGO_PKG_NAME"), "--example", name]).join("examples").join(name)
}

fn build() -> PathBuf {
    cargo_build(&["--package", "listwatch", "--bin", "lw"]).join("lw")
}

/// Builds in the profile of the test that asks; gives the folder of that profile.
fn cargo_build(what: &[&str]) -> PathBuf {
    // target/PROFILE/deps/this-test
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test.ancestors().nth(2).expect("a test lies in target/PROFILE/deps").to_owned();
    let target = profile.parent().expect("a profile lies in the target folder");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet"]).args(what).arg("--target-dir").arg(target);
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().expect("cargo starts");
    assert!(status.success(), "building {what:?} failed");
    profile
}
