//! An amount of memory, and how much of it a model may take.

/// What stays free on a GPU for the desktop, the driver and what wgpu keeps in reserve: llama.cpp's `--fit-target`.
const RESERVE: u64 = 1 << 30;

/// Bytes of memory that an adapter can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All there is.
    pub total: u64,
    /// What nobody has taken, or what the system would give this process; `None` where the driver does not say.
    pub free: Option<u64>,
}

impl Memory {
    /// Memory that is the system's: at most half of what that has, and of what is free there.
    pub(super) fn shared(self, system: Option<Memory>) -> Memory {
        let Some(system) = system else { return self };
        let total = self.total.min(system.total / 2);
        let free = [self.free, system.free.map(|free| free / 2)].into_iter().flatten().min();
        Memory { total, free: free.map(|free| free.min(total)) }
    }

    /// What a model may take: what is free, less a reserve of 1 GiB, or of a quarter where there is not even four times
    /// as much.
    pub fn budget(&self) -> u64 {
        let free = self.free.unwrap_or(self.total).min(self.total);
        free - RESERVE.min(free / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_budget_leaves_a_reserve() {
        for (total, free, budget) in [
            (24 * GIB, Some(20 * GIB), 19 * GIB),
            (24 * GIB, None, 23 * GIB),
            (4 * GIB, None, 3 * GIB),
            (2 * GIB, None, 2 * GIB - GIB / 2),
            (24 * GIB, Some(400), 300),
            (24 * GIB, Some(0), 0),
            // A driver that counts more free than there is.
            (8 * GIB, Some(9 * GIB), 7 * GIB),
            (0, None, 0),
        ] {
            assert_eq!(Memory { total, free }.budget(), budget, "{total} {free:?}");
        }
    }

    #[test]
    fn memory_of_the_system_is_shared() {
        let memory = |total, free| Memory { total: total * GIB, free: Option::map(free, |free: u64| free * GIB) };
        for (driver, system, expected) in [
            (memory(30, None), Some(memory(32, Some(20))), memory(16, Some(10))),
            (memory(12, Some(4)), Some(memory(32, Some(20))), memory(12, Some(4))),
            (memory(12, Some(12)), Some(memory(16, None)), memory(8, Some(8))),
            (memory(12, None), None, memory(12, None)),
        ] {
            assert_eq!(driver.shared(system), expected, "{driver:?} in {system:?}");
        }
    }
}
