//! The memory that the system leaves this process: of the machine, of a control group, of what `ulimit` allows.

mod bound;
#[cfg(any(target_os = "linux", test))]
mod groups;
#[cfg(any(target_os = "linux", test))]
mod proc;

pub use bound::{Bound, Free, Memory};

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
