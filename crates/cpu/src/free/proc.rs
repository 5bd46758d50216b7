//! The files in which Linux says what memory there is (proc(5)).

use std::path::Path;

use super::{
    bound::{Bound, Free, Memory},
    groups,
};

/// What the files say that `read` reads.
pub(super) fn memory(read: &dyn Fn(&Path) -> Option<String>) -> Memory {
    let text = |path: &str| read(Path::new(path)).unwrap_or_default();
    let (status, limits) = (text("/proc/self/status"), text("/proc/self/limits"));
    let machine = kib(&text("/proc/meminfo"), "MemAvailable");
    let group = groups::of(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"))
        .iter()
        .filter_map(|group| group.left(read))
        .min();
    let left = |limit, taken| Some(limit_of(&limits, limit)?.saturating_sub(kib(&status, taken)?));
    let bounds = [
        (Bound::Machine, machine),
        (Bound::Group, group),
        (Bound::Addresses, left("Max address space", "VmSize")),
        (Bound::Data, left("Max data size", "VmData")),
    ];
    let free = bounds.into_iter().filter_map(|(bound, bytes)| Some(Free { bytes: bytes?, bound })).collect();
    Memory { free, touched: kib(&status, "RssAnon").unwrap_or(0) }
}

/// The bytes of a line `MemAvailable:   8000000 kB`.
fn kib(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The soft limit of a line `Max address space   8192000000   unlimited   bytes`; `None` where there is no limit.
fn limit_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(path: &Path) -> Option<String> {
        let text = match path.to_str()? {
            "/proc/meminfo" => "MemTotal: 16310520 kB\nMemFree: 1000 kB\nMemAvailable:    8000000 kB\n",
            "/proc/self/status" => "Name:\tcandor\nVmSize:\t    5000 kB\nVmData:\t 4000 kB\nRssAnon:\t 300 kB\n",
            "/proc/self/limits" => {
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max data size             5120000              unlimited            bytes     \n\
                 Max address space         8192000000           unlimited            bytes     \n"
            }
            "/proc/self/mountinfo" => "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "/proc/self/cgroup" => "0::/user\n",
            "/sys/fs/cgroup/user/memory.max" => "9000\n",
            "/sys/fs/cgroup/user/memory.current" => "4000\n",
            _ => return None,
        };
        Some(text.to_owned())
    }

    #[test]
    fn every_bound_is_read() {
        let free = |bytes, bound| Free { bytes, bound };
        let expected = vec![
            free(8_000_000 * 1024, Bound::Machine),
            free(5000, Bound::Group),
            free(8_192_000_000 - 5000 * 1024, Bound::Addresses),
            free(5_120_000 - 4000 * 1024, Bound::Data),
        ];
        assert_eq!(memory(&files), Memory { free: expected, touched: 300 * 1024 });
    }

    #[test]
    fn what_is_unlimited_or_unknown_is_no_bound() {
        let unlimited = |path: &Path| match path.to_str()? {
            "/proc/self/limits" => Some("Max address space         unlimited            unlimited   bytes\n".into()),
            other => files(Path::new(other)).filter(|_| other == "/proc/self/status"),
        };
        assert_eq!(memory(&unlimited), Memory { free: Vec::new(), touched: 300 * 1024 });
        assert_eq!(memory(&|_| None), Memory::default());
    }
}
