# Every command of the project; `just` alone lists them.
default:
    @just --list

# A cluster with the example Deployment, step by step
demo:
    cargo run --release -- up --demo

# All tests
test:
    cargo test --workspace

# What the tests do not say: format, lints, house rules
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test -p listwatch-integration-tests --test tidy

# The generated code, anew from the protos
generate:
    REGENERATE=1 cargo test -p listwatch-proto --test generated

# Licences, bans and sources of what comes from outside (needs cargo-deny)
deny:
    cargo deny check bans licenses sources

# Exactly what CI runs
ci:
    bash .ci/run
