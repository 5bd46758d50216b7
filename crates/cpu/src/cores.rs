//! How many threads are worth having.

use std::collections::HashSet;
use std::fs;
use std::thread::available_parallelism;

/// Physical cores that this process may use, at least 1.
///
/// Two threads of one core share its multipliers and its path to memory, so a second one gains nothing here. On Linux
/// the affinity mask and the machine's topology are read; a control group's quota lowers the number. Elsewhere it is
/// what the standard library takes for the number of processors.
pub fn physical_cores() -> usize {
    let logical = available_parallelism().map_or(1, usize::from);
    let cores = fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        cores_of(&processors(list)?, |cpu, field| {
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{field}")).ok()
        })
    });
    cores.map_or(logical, |cores| cores.min(logical)).max(1)
}

/// The processors of a list such as `0-3,8`.
fn processors(list: &str) -> Option<Vec<u32>> {
    let mut processors = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        processors.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(processors)
}

/// How many cores the processors belong to, by their package and core numbers; `None` if one has none.
fn cores_of(processors: &[u32], read: impl Fn(u32, &str) -> Option<String>) -> Option<usize> {
    let mut cores = HashSet::new();
    for &cpu in processors {
        cores.insert((read(cpu, "physical_package_id")?.trim().to_owned(), read(cpu, "core_id")?.trim().to_owned()));
    }
    Some(cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(processors(" 0-2,7\n"), Some(vec![0, 1, 2, 7]));
        assert_eq!(processors("5"), Some(vec![5]));
        assert_eq!(processors("a-b"), None);
    }

    #[test]
    fn siblings_count_once() {
        // Two packages of two cores of two threads each.
        let read = |cpu: u32, field: &str| match field {
            "physical_package_id" => Some(format!("{}\n", cpu / 4)),
            _ => Some(format!("{}\n", cpu % 2)),
        };
        assert_eq!(cores_of(&[0, 1, 2, 3, 4, 5, 6, 7], read), Some(4));
        assert_eq!(cores_of(&[0, 2], read), Some(1));
        assert_eq!(cores_of(&[0, 4], read), Some(2));
        assert_eq!(cores_of(&[0], |_, _| None), None);
    }

    #[test]
    fn this_machine_has_some() {
        assert!((1..=available_parallelism().map_or(1, usize::from)).contains(&physical_cores()));
    }
}
