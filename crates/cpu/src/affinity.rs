//! Which processors the threads run on.

use std::cell::Cell;
use std::sync::Arc;

use crate::Unavailable;
use crate::cores::{allowed, cores_among, processors};
use crate::system::keep_to;

/// How threads are placed on some processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placing {
    /// Each thread runs on any of them, as the system sees fit.
    #[default]
    Shared,
    /// Each thread has one of them, in turn.
    Strict,
}

/// Processors that a backend's threads keep to.
///
/// A thread that hands work to the backend is one of them, and keeps to its place afterwards.
#[derive(Clone, Debug)]
pub struct Cpus {
    list: Arc<[u32]>,
    placing: Placing,
}

thread_local! {
    /// The list that the thread last took a place of as a caller.
    static KEPT: Cell<usize> = const { Cell::new(0) };
}

impl Cpus {
    /// The processors of a list such as `0-3` or `0-3,8`.
    ///
    /// # Errors
    /// [`Unavailable`] if it is no such list, names one that this process may not use, or the system has no call for it.
    pub fn new(list: &str, placing: Placing) -> Result<Cpus, Unavailable> {
        let refuse = |why: String| Err(Unavailable { what: format!("processors {list}"), why });
        if !cfg!(target_os = "linux") {
            return refuse("only on Linux can threads be kept to some".into());
        }
        let Some(mut cpus) = processors(list) else {
            return refuse("expected numbers and ranges, such as 0-3 or 0-3,8".into());
        };
        cpus.sort_unstable();
        cpus.dedup();
        let usable = allowed().unwrap_or_default();
        if let Some(missing) = cpus.iter().find(|cpu| !usable.contains(cpu)) {
            return refuse(format!("this process may not use {missing}, but these: {}", written(usable)));
        }
        Ok(Cpus { list: cpus.into(), placing })
    }

    /// Physical cores that they belong to, or fewer where a control group's quota says so.
    pub fn cores(&self) -> usize {
        cores_among(&self.list)
    }

    /// Gives the calling thread its place, as thread `index` of those that share the list.
    pub(crate) fn keep(&self, index: usize) {
        let one = [self.list[index % self.list.len()]];
        // Each number was one that this process may use; if that has changed meanwhile, the system places the thread.
        let _ = keep_to(match self.placing {
            Placing::Shared => &self.list,
            Placing::Strict => &one,
        });
    }

    /// Gives the calling thread the first place, once.
    pub(crate) fn keep_caller(&self) {
        let list = self.list.as_ptr().addr();
        if KEPT.get() != list {
            self.keep(0);
            KEPT.set(list);
        }
    }
}

/// A list as people write it.
fn written(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b);
    let texts: Vec<String> = runs
        .map(|run| match *run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        })
        .collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_in_runs() {
        assert_eq!(written(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }

    #[cfg(target_os = "linux")]
    mod linux {
        use std::collections::BTreeSet;
        use std::sync::Mutex;
        use std::thread;

        use super::super::*;
        use crate::pool::Pool;
        use crate::spawn::Spawn;

        /// The processors that the calling thread may use.
        fn mine() -> Vec<u32> {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
            processors(line).unwrap()
        }

        #[test]
        fn wrong_lists_are_refused() {
            let refused = |list: &str| Cpus::new(list, Placing::Shared).unwrap_err().to_string();
            assert!(refused("two").starts_with("processors two: expected numbers and ranges"), "{}", refused("two"));
            assert!(refused("3-1").starts_with("processors 3-1: expected numbers and ranges"), "{}", refused("3-1"));
            assert!(refused("0-4000000000").contains("expected numbers"), "a mask of that size cannot be");
            let own = written(allowed().unwrap());
            let expected = format!("processors 8000: this process may not use 8000, but these: {own}");
            assert_eq!(refused("8000"), expected);
        }

        #[test]
        #[cfg_attr(miri, ignore = "the system's threads, which are not Miri's, say where they run")]
        fn threads_keep_to_their_processors() {
            let all = allowed().unwrap();
            let list = written(all);
            // A thread of its own: the caller keeps its place.
            thread::scope(|scope| {
                scope.spawn(|| {
                    for (placing, threads) in [(Placing::Strict, 3), (Placing::Shared, 2)] {
                        let pool = Pool::new(threads, Some(Cpus::new(&list, placing).unwrap()), Spawn::default());
                        let places = Mutex::new(BTreeSet::new());
                        let arrived = Mutex::new(0);
                        pool.run(threads, &|_| {
                            places.lock().unwrap().insert(mine());
                            *arrived.lock().unwrap() += 1;
                            // All threads must come.
                            while *arrived.lock().unwrap() < threads {
                                thread::yield_now();
                            }
                        });
                        let expected: BTreeSet<Vec<u32>> = match placing {
                            Placing::Strict => (0..threads).map(|i| vec![all[i % all.len()]]).collect(),
                            Placing::Shared => [all.to_vec()].into(),
                        };
                        assert_eq!(places.into_inner().unwrap(), expected, "{placing:?}");
                    }
                });
            });
        }
    }
}
