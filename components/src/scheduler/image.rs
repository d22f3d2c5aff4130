//! Images that nodes hold, as the scheduler compares them: by name, as text.
//!
//! Invariant: a name without a tag means `:latest`; nothing else is made equal, no registry is put in front
//! (Kubernetes 1.36, as recorded of it).

use std::sync::Arc;

/// An image that a node holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its names: tags and digests.
    pub names: Vec<Arc<str>>,
    /// Bytes.
    pub size: i64,
}

impl Image {
    /// An image's name with its tag put in.
    pub fn tagged(name: &str) -> Box<str> {
        // A colon before the last slash is a registry's port.
        let tag_at = name.rfind(':').map_or(0, |at| at + 1);
        if tag_at > name.rfind('/').map_or(0, |at| at + 1) { name.into() } else { format!("{name}:latest").into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_tag_is_latest() {
        let cases = [
            ("mid", "mid:latest"),
            ("mid:2", "mid:2"),
            ("docker.io/library/mid", "docker.io/library/mid:latest"),
            ("localhost:5000/mid", "localhost:5000/mid:latest"),
            ("localhost:5000/mid:1", "localhost:5000/mid:1"),
            ("mid@sha256:0123", "mid@sha256:0123"),
        ];
        for (given, expected) in cases {
            assert_eq!(&*Image::tagged(given), expected);
        }
    }
}
