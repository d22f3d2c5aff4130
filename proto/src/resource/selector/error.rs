//! Why a selector is refused.

/// Why a selector is refused, in apimachinery's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);
