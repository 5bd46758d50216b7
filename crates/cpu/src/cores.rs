//! How many threads are worth having.

use std::collections::HashSet;
use std::fs;
use std::sync::OnceLock;
use std::thread::available_parallelism;

/// Physical cores that this process may use, at least 1.
///
/// Two threads of one core share its multipliers and its path to memory, so a second one gains nothing here. On Linux
/// the affinity mask and the machine's topology are read; a control group's quota lowers the number. Elsewhere it is
/// what the standard library takes for the number of processors.
pub fn physical_cores() -> usize {
    cores_among(allowed().unwrap_or_default())
}

/// Physical cores that these processors belong to, or fewer where the process may use fewer at a time; at least 1.
pub(crate) fn cores_among(cpus: &[u32]) -> usize {
    // The standard library reads the quotas of control groups, of both versions.
    let logical = available_parallelism().map_or(1, usize::from);
    let cores = cores_of(cpus, |cpu, field| {
        fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{field}")).ok()
    });
    cores.filter(|&cores| cores > 0).map_or(logical, |cores| cores.min(logical)).max(1)
}

/// The processors that this process may use, where the system says so: those of the first thread to ask, since later
/// ones may have been given places of their own.
pub(crate) fn allowed() -> Option<&'static [u32]> {
    static ALLOWED: OnceLock<Option<Vec<u32>>> = OnceLock::new();
    let read = || {
        let status = fs::read_to_string("/proc/thread-self/status").ok()?;
        processors(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
    };
    ALLOWED.get_or_init(read).as_deref()
}

/// The processors of a list such as `0-3,8`; `None` if it is not such a list, or is longer than any machine.
pub(crate) fn processors(list: &str) -> Option<Vec<u32>> {
    const MOST: u32 = 8192;
    let mut processors = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        processors.extend(first..=last);
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
        for wrong in ["a-b", "", "3-1", "0-9999", "1,,2"] {
            assert_eq!(processors(wrong), None, "{wrong}");
        }
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

    /// Inside of a container that may use fewer processors than the machine has, that is how many there are.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_may_use_one_processor_counts_one() {
        let one = allowed().expect("Linux says so")[0];
        let counted = std::thread::spawn(move || {
            assert!(crate::system::keep_to(&[one]));
            physical_cores()
        });
        assert_eq!(counted.join().expect("no panic"), 1);
    }

    #[test]
    fn this_machine_has_some() {
        assert!((1..=available_parallelism().map_or(1, usize::from)).contains(&physical_cores()));
    }
}
