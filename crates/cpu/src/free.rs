//! The memory that the system leaves this process: of the machine, of a control group, of what `ulimit` allows.

#[cfg(any(target_os = "linux", test))]
mod groups;
#[cfg(any(target_os = "linux", test))]
mod proc;

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

impl Memory {
    /// Asks the system.
    pub fn now() -> Memory {
        #[cfg(target_os = "linux")]
        return proc::memory(&|path| std::fs::read_to_string(path).ok());
        #[cfg(not(target_os = "linux"))]
        {
            let machine = crate::system::free_memory().map(|bytes| Free { bytes, bound: Bound::Machine });
            let addresses = addresses().map(|bytes| Free { bytes, bound: Bound::Addresses });
            Memory { free: machine.into_iter().chain(addresses).collect(), touched: 0 }
        }
    }
}

/// Addresses that are left, where they are few.
#[cfg(not(target_os = "linux"))]
fn addresses() -> Option<u64> {
    #[cfg(target_arch = "wasm32")]
    return Some((1u64 << 32).saturating_sub(core::arch::wasm32::memory_size::<0>() as u64 * (64 << 10)));
    #[cfg(not(target_arch = "wasm32"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_memory_is_free() {
        let memory = Memory::now();
        if cfg!(any(target_os = "linux", target_vendor = "apple", windows)) {
            assert!(memory.free.iter().any(|free| free.bound == Bound::Machine && free.bytes > 1 << 20), "{memory:?}");
        }
    }
}
