//! Reads a kubeconfig into a [`ClientConfig`].
//!
//! Invariant: what an entry asks for and is not supported (exec plugins, passwords, proxies) is refused by name; a
//! client that silently left it out would act as somebody else.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use listwatch_proto::kubeconfig::{Cluster, Kubeconfig, User};

use super::{ClientCertificate, ClientConfig, ConfigError};

/// What a context of a kubeconfig says.
#[derive(Debug, Clone)]
pub struct Selected {
    /// How to reach the server, and as whom.
    pub config: ClientConfig,
    /// The namespace for commands that name none; `default` if the context says nothing.
    pub namespace: String,
    /// Whether Listwatch wrote the cluster's entry.
    pub is_ours: bool,
}

/// Reads a file and selects one context, the current one if none is named.
pub fn load_kubeconfig(path: &Path, context: Option<&str>) -> Result<Selected, ConfigError> {
    let bytes = read(path)?;
    let file = File { path };
    let config: Kubeconfig = serde_norway::from_slice(&bytes).map_err(|e| file.wrong(not_a_kubeconfig(&e)))?;
    let selected = config.select(context).map_err(|e| file.wrong(e))?;
    file.refuse(selected.cluster.other.keys())?;
    let mut client = ClientConfig::new(selected.cluster.server.as_str());
    file.trust(selected.cluster, &mut client)?;
    if let Some(user) = selected.user {
        file.refuse(user.other.keys())?;
        file.identify(user, &mut client)?;
    }
    let namespace = selected.context.context.namespace.clone().filter(|n| !n.is_empty());
    Ok(Selected {
        config: client,
        namespace: namespace.unwrap_or_else(|| "default".to_owned()),
        is_ours: selected.cluster.is_ours(),
    })
}

/// The file being read, for messages and for paths relative to it.
struct File<'a> {
    path: &'a Path,
}

impl File<'_> {
    fn trust(&self, cluster: &Cluster, client: &mut ClientConfig) -> Result<(), ConfigError> {
        if cluster.server.is_empty() {
            return Err(self.wrong("the cluster names no server"));
        }
        let (data, file) = (&cluster.certificate_authority_data, &cluster.certificate_authority);
        client.certificate_authority = self.content("certificate-authority-data", data, file)?;
        client.insecure_skip_tls_verify = cluster.insecure_skip_tls_verify.unwrap_or(false);
        client.tls_server_name = cluster.tls_server_name.clone().filter(|n| !n.is_empty());
        Ok(())
    }

    fn identify(&self, user: &User, client: &mut ClientConfig) -> Result<(), ConfigError> {
        let certificate =
            self.content("client-certificate-data", &user.client_certificate_data, &user.client_certificate)?;
        let key = self.content("client-key-data", &user.client_key_data, &user.client_key)?;
        client.client_certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
            (None, None) => None,
            (Some(_), None) => return Err(self.wrong("the user has a client certificate but no key")),
            (None, Some(_)) => return Err(self.wrong("the user has a client key but no certificate")),
        };
        client.token = match (&user.token, &user.token_file) {
            (Some(token), _) if !token.is_empty() => Some(token.clone()),
            (_, Some(file)) => Some(self.text_of(file)?),
            _ => None,
        };
        Ok(())
    }

    /// The embedded content, else that of the file; relative paths start at the kubeconfig.
    fn content(
        &self,
        field: &str,
        data: &Option<String>,
        file: &Option<String>,
    ) -> Result<Option<Vec<u8>>, ConfigError> {
        if let Some(data) = data.as_ref().filter(|d| !d.is_empty()) {
            return STANDARD.decode(data.trim()).map(Some).map_err(|e| self.wrong(format!("{field}: {e}")));
        }
        file.as_ref().filter(|f| !f.is_empty()).map(|file| read(&self.beside(file))).transpose()
    }

    fn text_of(&self, file: &str) -> Result<String, ConfigError> {
        let bytes = read(&self.beside(file))?;
        let text = String::from_utf8(bytes).map_err(|e| self.wrong(format!("{file}: {e}")))?;
        Ok(text.trim().to_owned())
    }

    fn beside(&self, file: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }

    fn refuse<'k>(&self, mut unsupported: impl Iterator<Item = &'k String>) -> Result<(), ConfigError> {
        match unsupported.next() {
            None => Ok(()),
            Some(field) => Err(self.wrong(format!("{field} is not supported"))),
        }
    }

    fn wrong(&self, reason: impl std::fmt::Display) -> ConfigError {
        ConfigError::Kubeconfig { path: self.path.to_owned(), reason: reason.to_string() }
    }
}

/// Where and why a file is no kubeconfig, without a word of what stands in it: it may be any file (one of passwords, too),
/// and messages end in logs. The words behind the last `expected` are this program's own.
fn not_a_kubeconfig(error: &serde_norway::Error) -> String {
    let place = error.location().map_or_else(String::new, |at| format!(", line {}, column {}", at.line(), at.column()));
    let text = error.to_string();
    let expected = text.rsplit_once(", expected ").map(|(_, rest)| rest.split(" at line ").next().unwrap_or(rest));
    match expected {
        Some(expected) => format!("not a kubeconfig{place}: expected {}", expected.replace("struct ", "a map of a ")),
        None => format!("not a kubeconfig{place}: not the YAML that one is written in"),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Selected, ConfigError> {
        let dir = tempfile::tempdir().expect("temp dir");
        std::fs::write(dir.path().join("token"), "from-file\n").expect("write");
        let path = dir.path().join("config");
        std::fs::write(&path, text).expect("write");
        load_kubeconfig(&path, None)
    }

    fn with_user(user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: x, cluster: {{server: 'https://h:1', certificate-authority-data: Q0E=}}}}]\n\
             contexts: [{{name: c, context: {{cluster: x, user: u}}}}]\n\
             users: [{{name: u, user: {user}}}]\n"
        )
    }

    #[test]
    fn a_context_becomes_a_configuration() {
        let selected = load(&with_user("{tokenFile: token}")).expect("reads");
        assert_eq!(selected.config.server, "https://h:1");
        assert_eq!(selected.config.certificate_authority.as_deref(), Some(&b"CA"[..]));
        assert_eq!(selected.config.token.as_deref(), Some("from-file"));
        assert_eq!((selected.namespace.as_str(), selected.is_ours), ("default", false));
    }

    #[test]
    fn a_file_that_is_no_kubeconfig_is_refused_without_its_content() {
        for text in [
            "root:s3cret:0:0::/root:/bin/bash\nbin:s3cret:1\n",
            "clusters: s3cret\n",
            "clusters: [{name: a, cluster: {server: [s3cret, ', expected ']}}]\n",
            "contexts: [{name: {s3cret: 1}}]\n",
            "users: [{name: a, user: {token: {s3cret: 1}}}]\n",
            "s3cret: {\n",
            "s3cret: *s3cret\n",
            "clusters: []\nclusters: [s3cret]\n",
        ] {
            let error = load(text).expect_err(text).to_string();
            assert!(error.contains("config: not a kubeconfig"), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (user, word) in [
            ("{exec: {command: login}}", "exec"),
            ("{username: a, password: b}", "password"),
            ("{client-certificate-data: QQ==}", "no key"),
            ("{client-key-data: '%'}", "client-key-data"),
        ] {
            let error = load(&with_user(user)).expect_err(user).to_string();
            assert!(error.contains(word), "{user}: {error}");
        }
    }
}
