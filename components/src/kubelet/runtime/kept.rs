//! What every runtime keeps of a pod in its file, so that a later kubelet finds it again; and how files are worked on.

use std::{io, net::Ipv4Addr, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::seam::{PodConfig, RuntimeError};

/// A pod as the runtime was told of it. It stands flat in the file of a pod, beside what the runtime adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeptPod {
    /// The version of the file.
    pub(super) format: u32,
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) host_network: bool,
    pub(super) grace_millis: u64,
    pub(super) ip: Ipv4Addr,
}

impl KeptPod {
    /// The pod at this address, in a file of this version.
    pub(super) fn new(format: u32, config: &PodConfig, ip: Ipv4Addr) -> Self {
        KeptPod {
            format,
            uid: config.uid.clone(),
            namespace: config.namespace.clone(),
            name: config.name.clone(),
            host_network: config.host_network,
            grace_millis: u64::try_from(config.grace.as_millis()).unwrap_or(u64::MAX),
            ip,
        }
    }

    /// What the runtime was told.
    pub(super) fn config(&self) -> PodConfig {
        PodConfig {
            uid: self.uid.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            host_network: self.host_network,
            grace: Duration::from_millis(self.grace_millis),
        }
    }
}

/// Works on files beside the async threads; `what` names the work where it fails.
pub(super) async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, RuntimeError> {
    let outcome = spawn_blocking(work).await.map_err(io::Error::other).and_then(|outcome| outcome);
    outcome.map_err(|source| RuntimeError::Io { what, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_an_earlier_kubelet_is_read_and_written_alike() {
        #[derive(Serialize, Deserialize)]
        struct File {
            #[serde(flatten)]
            pod: KeptPod,
            more: u8,
        }
        let text = r#"{"format":1,"uid":"u","namespace":"n","name":"a","hostNetwork":true,"graceMillis":1500,"ip":"10.0.0.2","more":7}"#;
        let file: File = serde_json::from_str(text).expect("read");
        assert_eq!((file.pod.config().grace, file.more), (Duration::from_millis(1500), 7));
        assert_eq!(KeptPod::new(1, &file.pod.config(), file.pod.ip), file.pod);
        assert_eq!(serde_json::to_string(&file).expect("written"), text);
    }
}
