//! Which version this is, as Kubernetes tells it (`version.Info` of Kubernetes 1.36).

use serde::{Deserialize, Serialize};

/// The Kubernetes release whose API is spoken.
pub const KUBERNETES_VERSION: &str = "1.36.3";

/// What `/version` answers and `lw version` shows, in upstream's order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VersionInfo {
    /// `1`.
    pub major: String,
    /// `36`.
    pub minor: String,
    /// Whose behaviour is shown; of a server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub emulation_major: String,
    /// The same.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub emulation_minor: String,
    /// The oldest release that it can be taken back to; of a server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_compatibility_major: String,
    /// The same.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_compatibility_minor: String,
    /// `v1.36.3+listwatch-0.1.0`: the Kubernetes release, and the release of Listwatch.
    pub git_version: String,
    /// Not known.
    pub git_commit: String,
    /// Not known.
    pub git_tree_state: String,
    /// Not known.
    pub build_date: String,
    /// There is none.
    pub go_version: String,
    /// `rustc`.
    pub compiler: String,
    /// `linux/amd64`.
    pub platform: String,
}

impl VersionInfo {
    /// This very program's.
    pub fn client() -> Self {
        let mut parts = KUBERNETES_VERSION.split('.').map(str::to_owned);
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        VersionInfo {
            major: parts.next().unwrap_or_default(),
            minor: parts.next().unwrap_or_default(),
            git_version: format!("v{KUBERNETES_VERSION}+listwatch-{}", env!("CARGO_PKG_VERSION")),
            compiler: "rustc".to_owned(),
            platform: format!("{}/{architecture}", std::env::consts::OS),
            ..Self::default()
        }
    }

    /// A server's: it shows the behaviour of its own release and can be taken back to none before.
    pub fn server() -> Self {
        let own = Self::client();
        VersionInfo {
            emulation_major: own.major.clone(),
            emulation_minor: own.minor.clone(),
            min_compatibility_major: own.major.clone(),
            min_compatibility_minor: own.minor.clone(),
            ..own
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_names_both_releases_and_reads_back() {
        let client = VersionInfo::client();
        assert_eq!((client.major.as_str(), client.minor.as_str()), ("1", "36"));
        assert_eq!(client.git_version, concat!("v1.36.3+listwatch-", env!("CARGO_PKG_VERSION")));
        let text = serde_json::to_string(&VersionInfo::server()).expect("serializes");
        assert!(text.starts_with(r#"{"major":"1","minor":"36","emulationMajor":"1","emulationMinor":"36","#), "{text}");
        assert_eq!(serde_json::from_str::<VersionInfo>(&text).expect("reads"), VersionInfo::server());
        assert!(!serde_json::to_string(&client).expect("serializes").contains("emulation"));
    }
}
