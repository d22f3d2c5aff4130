//! Writing what clients start from.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use listwatch_proto::kubeconfig::{
    Cluster, Context, Kubeconfig, NamedCluster, NamedContext, NamedExtension, NamedUser, PROVIDER, User,
};

use super::{Credentials, Error, file};

/// Writes a kubeconfig that reaches the server at `server` (`https://127.0.0.1:6443`) as the holder of `credentials`.
///
/// `cluster` names cluster and context. Authority, certificate and key are embedded, so that the file can be copied.
/// A file that already says the same is left alone. Mode 0600.
///
/// # Errors
/// The file cannot be read or written.
pub fn write(path: &Path, cluster: &str, server: &str, ca_pem: &str, credentials: &Credentials) -> Result<(), Error> {
    let text = render(cluster, server, ca_pem, credentials)
        .map_err(|source| Error::Kubeconfig { path: path.to_owned(), source })?;
    if file::read(path)?.as_deref() == Some(text.as_str()) {
        return Ok(());
    }
    if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        file::make_dir(dir)?;
    }
    file::write_all(&[(path.to_owned(), text)])
}

fn render(cluster: &str, server: &str, ca_pem: &str, credentials: &Credentials) -> Result<String, serde_norway::Error> {
    let user = credentials.identity.user();
    let config = Kubeconfig {
        clusters: vec![NamedCluster {
            name: cluster.to_owned(),
            cluster: Cluster {
                server: server.to_owned(),
                certificate_authority_data: Some(STANDARD.encode(ca_pem)),
                extensions: vec![NamedExtension {
                    name: "cluster_info".to_owned(),
                    extension: serde_json::json!({"provider": PROVIDER}),
                }],
                ..Cluster::default()
            },
        }],
        users: vec![NamedUser {
            name: user.clone(),
            user: User {
                client_certificate_data: Some(STANDARD.encode(&credentials.certificate_pem)),
                client_key_data: Some(STANDARD.encode(&credentials.key_pem)),
                ..User::default()
            },
        }],
        contexts: vec![NamedContext {
            name: cluster.to_owned(),
            context: Context { cluster: cluster.to_owned(), user, ..Context::default() },
        }],
        current_context: cluster.to_owned(),
        ..Kubeconfig::default()
    };
    serde_norway::to_string(&config)
}
