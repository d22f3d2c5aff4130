//! The generated code in `src/generated/` is checked in; this test makes it anew from `protos/` and compares.
//!
//! `REGENERATE=1 cargo test -p listwatch-proto --test generated` writes the new code instead.

use std::{fs, path::Path};

/// Every file of the contract; their imports are found beside them.
const PROTOS: &[&str] =
    &["google/rpc/status.proto", "listwatch/v1/resources.proto", "listwatch/v1/admin.proto", "etcd/rpc.proto"];

/// The descriptors of all services, for gRPC reflection.
const DESCRIPTORS: &str = "descriptors.bin";

fn generate(out: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("protos");
    let mut compiler = protox::Compiler::new([&root]).expect("protos folder");
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(PROTOS).expect("the contract compiles");
    tonic_prost_build::configure()
        .bytes(".")
        .out_dir(out)
        .compile_fds(compiler.file_descriptor_set())
        .expect("code is generated");
    compiler.include_source_info(false);
    fs::write(out.join(DESCRIPTORS), compiler.encode_file_descriptor_set()).expect("descriptors are written");
}

#[test]
fn checked_in_code_equals_what_the_contract_generates() {
    let checked_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    if std::env::var_os("REGENERATE").is_some() {
        fs::create_dir_all(&checked_in).expect("folder");
        generate(&checked_in);
        return;
    }
    let fresh = tempfile::tempdir().expect("temporary folder");
    generate(fresh.path());
    let mut names: Vec<_> =
        fs::read_dir(fresh.path()).expect("listing").map(|e| e.expect("entry").file_name()).collect();
    names.sort();
    for name in names {
        let new = fs::read(fresh.path().join(&name)).expect("new file");
        let old = fs::read(checked_in.join(&name)).unwrap_or_default();
        assert!(
            new == old,
            "src/generated/{} is stale: run REGENERATE=1 cargo test -p listwatch-proto --test generated",
            name.display()
        );
    }
}
