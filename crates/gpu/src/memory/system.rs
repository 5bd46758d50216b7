//! The system's own memory, where it says without being asked in unsafe code: Linux.

use super::amount::Memory;

/// The memory of this machine; `None` where the system does not say.
pub(super) fn memory() -> Option<Memory> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// The lines `MemTotal: 16310520 kB` and `MemAvailable: ...` (proc(5)).
fn parse(text: &str) -> Option<Memory> {
    let bytes = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: u64 = line.strip_prefix(':')?.split_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    };
    Some(Memory { total: bytes("MemTotal")?, free: bytes("MemAvailable") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read() {
        let text = "MemTotal:       16310520 kB\nMemFree:         1000 kB\nMemAvailable:    8000000 kB\n";
        assert_eq!(parse(text), Some(Memory { total: 16_310_520 * 1024, free: Some(8_000_000 * 1024) }));
        assert_eq!(parse("MemTotal: 2 kB"), Some(Memory { total: 2048, free: None }));
        assert_eq!(parse("MemTotal: many"), None);
    }
}
