//! Why no device could be opened.

/// Why no device could be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no hardware adapter.
    #[error("gpu: expected an adapter with hardware, found {}", list(found))]
    NoAdapter {
        /// The names of the software adapters that are not taken without being named.
        found: Vec<String>,
    },
    /// The adapter that was asked for is not there.
    #[error("gpu: expected an adapter {wanted}, found {}", list(found))]
    NoSuchAdapter {
        /// The name or number that was asked for.
        wanted: String,
        /// The names of those that are there.
        found: Vec<String>,
    },
    /// The adapter has no device to give.
    #[error("gpu {adapter}: {reason}")]
    Request {
        /// Its name.
        adapter: String,
        /// The driver's words.
        reason: String,
    },
    /// A variant was asked for that the adapter does not have.
    #[error("gpu {adapter}: expected {feature}, which it does not have")]
    Feature {
        /// Its name.
        adapter: String,
        /// What is missing.
        feature: &'static str,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
