//! `lw create secret`: generic, tls and docker-registry.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::command::HowArgs;
use super::content::{Holder, SourceArgs, in_go};
use super::name::NameArgs;
use crate::commands::failure::Failure;

/// Create a Secret of a type
///
/// Examples: lw create secret generic key --from-literal=p=w; lw create secret tls web --cert=web.crt --key=web.key
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(super) struct SecretArgs {
    #[command(subcommand)]
    pub(super) what: SecretKind,
}

/// What the Secret is for.
#[derive(Debug, Subcommand)]
pub(super) enum SecretKind {
    Generic(GenericArgs),
    Tls(TlsArgs),
    DockerRegistry(DockerArgs),
}

/// Create a Secret from literals and files
///
/// Examples: lw create secret generic key --from-literal=p=w --from-file=id=key.pem
#[derive(Debug, Args)]
pub(super) struct GenericArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    sources: SourceArgs,
    /// The Secret's type; without it Opaque
    #[arg(long = "type", value_name = "TYPE")]
    secret_type: Option<String>,
    #[command(flatten)]
    how: HowArgs,
}

/// Create a Secret that holds a certificate and its key
///
/// Examples: lw create secret tls web --cert=web.crt --key=web.key
#[derive(Debug, Args)]
pub(super) struct TlsArgs {
    #[command(flatten)]
    name: NameArgs,
    /// The certificate, PEM
    #[arg(long, value_name = "FILE")]
    cert: Option<String>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE")]
    key: Option<String>,
    #[command(flatten)]
    how: HowArgs,
}

/// Create a Secret by which images are pulled
///
/// Examples: lw create secret docker-registry pull --docker-server=registry.local --docker-username=u --docker-password=p
#[derive(Debug, Args)]
pub(super) struct DockerArgs {
    #[command(flatten)]
    name: NameArgs,
    /// The registry's address
    #[arg(long, value_name = "ADDRESS", default_value = "https://index.docker.io/v1/")]
    docker_server: String,
    /// The user's name
    #[arg(long, value_name = "NAME")]
    docker_username: Option<String>,
    /// The user's password
    #[arg(long, value_name = "PASSWORD")]
    docker_password: Option<String>,
    /// The user's mail address
    #[arg(long, value_name = "ADDRESS")]
    docker_email: Option<String>,
    /// A file that holds all of it, .dockerconfigjson
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    from_file: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
}

impl SecretKind {
    /// How the object is created.
    pub(super) fn how(&self) -> &HowArgs {
        match self {
            SecretKind::Generic(args) => &args.how,
            SecretKind::Tls(args) => &args.how,
            SecretKind::DockerRegistry(args) => &args.how,
        }
    }

    /// The object that the flags describe.
    ///
    /// # Errors
    /// If a file cannot be read or holds something else, or a flag is missing.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        match self {
            SecretKind::Generic(args) => args.object(),
            SecretKind::Tls(args) => args.object(),
            SecretKind::DockerRegistry(args) => args.object(),
        }
    }
}

fn secret(name: &str, secret_type: &str) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    if !secret_type.is_empty() {
        object["type"] = secret_type.into();
    }
    object
}

impl GenericArgs {
    fn object(&self) -> Result<Value, Failure> {
        let name = self.name.one("secret generic")?;
        let content = self.sources.read(Holder::Secret, name)?;
        Ok(self.sources.fill(content, secret(name, self.secret_type.as_deref().unwrap_or_default())))
    }
}

impl TlsArgs {
    fn object(&self) -> Result<Value, Failure> {
        let name = self.name.one("secret tls")?;
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else {
            return Err(Failure::usage("key and cert must be specified"));
        };
        let read = |path: &str| {
            fs::read(path)
                .map_err(|error| Failure::plain(format!("Cannot read file {path}, open {path}: {}", in_go(&error))))
        };
        let (cert, key) = (read(cert)?, read(key)?);
        for (pem, what) in [(&cert, "certificate"), (&key, "key")] {
            if !String::from_utf8_lossy(pem).contains("-----BEGIN ") {
                return Err(Failure::plain(format!("tls: failed to find any PEM data in {what} input")));
            }
        }
        let mut object = secret(name, "kubernetes.io/tls");
        object["data"] = json!({"tls.crt": STANDARD.encode(cert), "tls.key": STANDARD.encode(key)});
        Ok(object)
    }
}

impl DockerArgs {
    fn object(&self) -> Result<Value, Failure> {
        let name = self.name.one("secret docker-registry")?;
        let config = match (self.from_file.as_slice(), &self.docker_username, &self.docker_password) {
            ([], Some(user), Some(password)) => self.config(user, password),
            ([path], _, _) => {
                let path = path.split_once('=').map_or(path.as_str(), |(_, path)| path);
                fs::read_to_string(path)
                    .map_err(|error| Failure::plain(format!("error reading {path}: {}", in_go(&error))))?
            }
            _ => {
                return Err(Failure::usage(
                    "either --from-file or the combination of --docker-username, --docker-password and \
                     --docker-server is required",
                ));
            }
        };
        let mut object = secret(name, "kubernetes.io/dockerconfigjson");
        object["data"] = json!({".dockerconfigjson": STANDARD.encode(config)});
        Ok(object)
    }

    /// In the order that docker has, which readers do not mind and people compare.
    fn config(&self, user: &str, password: &str) -> String {
        let text = |text: &str| Value::from(text).to_string();
        let mut entry = format!("\"username\":{},\"password\":{}", text(user), text(password));
        if let Some(email) = &self.docker_email {
            entry += &format!(",\"email\":{}", text(email));
        }
        entry += &format!(",\"auth\":{}", text(&STANDARD.encode(format!("{user}:{password}"))));
        format!("{{\"auths\":{{{}:{{{entry}}}}}}}", text(&self.docker_server))
    }
}
