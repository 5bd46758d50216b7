//! The control groups of Linux that this process is in, of both versions, and what each leaves it of memory.

use std::path::{Component, Path, PathBuf};

/// A group, and the topmost one above it that can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    folder: PathBuf,
    top: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The groups that bound memory, by what `/proc/self/mountinfo` and `/proc/self/cgroup` say.
pub(super) fn of(mounts: &str, memberships: &str) -> Vec<Group> {
    mounts.lines().filter_map(|line| mounted(line, memberships)).collect()
}

/// The group of a line `30 23 0:26 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw`.
fn mounted(line: &str, memberships: &str) -> Option<Group> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, top) = (place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let version = match (kind.next()?, kind.nth(1)?) {
        ("cgroup2", _) => Version::Two,
        ("cgroup", options) if has(options, "memory") => Version::One,
        _ => return None,
    };
    // `4:memory:/path`; of version 2 `0::/path`.
    let path = memberships.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        let ours = match version {
            Version::One => has(controllers, "memory"),
            Version::Two => controllers.is_empty(),
        };
        ours.then_some(path)
    })?;
    // A container may see its own group as the topmost one, and still be given the path outside.
    let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    let inside = below.components().all(|part| matches!(part, Component::Normal(_)));
    let top = PathBuf::from(top);
    let folder = if inside { top.join(below) } else { top.clone() };
    Some(Group { folder, top, version })
}

fn has(list: &str, name: &str) -> bool {
    list.split(',').any(|entry| entry == name)
}

impl Group {
    /// The least that it and the groups above it leave; `None` where nothing bounds it.
    pub(super) fn left(&self, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
        let folders = self.folder.ancestors().take_while(|folder| folder.starts_with(&self.top));
        folders.filter_map(|folder| self.left_in(folder, read)).min()
    }

    fn left_in(&self, folder: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
        let number = |name: &str| read(&folder.join(name))?.trim().parse::<u64>().ok();
        let (limits, taken, kinds): (&[&str], _, _) = match self.version {
            Version::One => {
                (&["memory.limit_in_bytes"], "memory.usage_in_bytes", ["total_inactive_file", "total_active_file"])
            }
            Version::Two => (&["memory.max", "memory.high"], "memory.current", ["inactive_file", "active_file"]),
        };
        let limit = limits.iter().filter_map(|name| number(name)).min()?;
        // Pages of files are given up where memory is short: those of a model's weights among them, which are counted with the
        // model. Active ones too, or the second run of a model would find less than the first.
        let statistics = read(&folder.join("memory.stat")).unwrap_or_default();
        let pages = |kind: &str| {
            let line = statistics.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
            line.trim().parse::<u64>().ok()
        };
        let files = kinds.iter().filter_map(|kind| pages(kind)).fold(0, u64::saturating_add);
        Some(limit.saturating_sub(number(taken)?.saturating_sub(files)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn group(folder: &str, top: &str, version: Version) -> Group {
        Group { folder: folder.into(), top: top.into(), version }
    }

    #[test]
    fn a_group_is_found_where_it_is_mounted() {
        let one = "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n";
        assert_eq!(of(V1, one), [group("/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory", Version::One)]);
        assert_eq!(of(V2, "0::/a/b\n"), [group("/sys/fs/cgroup/a/b", "/sys/fs/cgroup", Version::Two)]);
        // A container's mount begins at its own group.
        let within = V2.replace(" / /sys", " /a /sys");
        assert_eq!(of(&within, "0::/a/b\n"), [group("/sys/fs/cgroup/b", "/sys/fs/cgroup", Version::Two)]);
        for path in ["0::/elsewhere\n", "0::/a/../../b\n"] {
            assert_eq!(of(&within, path), [group("/sys/fs/cgroup", "/sys/fs/cgroup", Version::Two)], "{path}");
        }
        assert_eq!(of(V2, "4:memory:/a\n"), []);
        assert_eq!(of("nonsense\n - \n1 2 3 - cgroup2\n", "0::/\n"), []);
    }

    fn left(group: &Group, files: &[(&str, &str)]) -> Option<u64> {
        group.left(&|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_tightest_of_all_groups_above_bounds() {
        let of = group("/top/a/b", "/top", Version::Two);
        let files = [
            ("/top/a/b/memory.max", "max\n"),
            ("/top/a/b/memory.current", "100\n"),
            ("/top/a/memory.max", "5000\n"),
            ("/top/a/memory.high", "4000\n"),
            ("/top/a/memory.current", "3000\n"),
            ("/top/a/memory.stat", "anon 7\ninactive_file 1200\nactive_file 800\n"),
            ("/top/memory.max", "3500\n"),
            ("/top/memory.current", "3400\n"),
            ("/memory.max", "1\n"),
            ("/memory.current", "1\n"),
        ];
        assert_eq!(left(&of, &files[..6]), Some(4000 - (3000 - 2000)));
        assert_eq!(left(&of, &files), Some(100), "nothing above the topmost is looked at");
        assert_eq!(left(&of, &files[..2]), None, "max is no limit");
        let spent = [("/top/memory.max", "10"), ("/top/memory.current", "11")];
        assert_eq!(left(&of, &spent), Some(0));
    }

    #[test]
    fn version_1_has_other_names() {
        let of = group("/top/a", "/top", Version::One);
        let files = [
            ("/top/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/top/memory.usage_in_bytes", "9000\n"),
            ("/top/a/memory.limit_in_bytes", "8000\n"),
            ("/top/a/memory.usage_in_bytes", "5000\n"),
            ("/top/a/memory.stat", "active_file 1\ntotal_inactive_file 300\ntotal_active_file 50\n"),
        ];
        assert_eq!(left(&of, &files), Some(8000 - (5000 - 350)));
    }
}
