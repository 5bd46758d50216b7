//! What bounds the memory of this process, and what is left of it.

/// What bounds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bound {
    /// What the machine has.
    Machine,
    /// A control group of Linux (cgroup), such as a container's.
    Group,
    /// Addresses: `ulimit -v`, or those of a process of 32 bits. Mapped files take of them.
    Addresses,
    /// Private memory that can be written: `ulimit -d`.
    Data,
}

impl Bound {
    /// Whether pages of a mapped file that are in use take of it, though they are not counted as taken.
    pub fn counts_pages(self) -> bool {
        matches!(self, Bound::Machine | Bound::Group)
    }
}

/// Bytes that this process can still take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Free {
    /// How many.
    pub bytes: u64,
    /// What bounds them.
    pub bound: Bound,
}

/// What the system says of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// What is left, by each bound that is known.
    pub free: Vec<Free>,
    /// Bytes of this process's own memory that it has touched; 0 where the system does not say.
    pub touched: u64,
}
