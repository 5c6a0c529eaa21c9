//! How much memory the process may use: the machine's memory, or less if cgroups limit it.

use std::fs;
use std::path::{Path, PathBuf};

/// The assumed memory of a machine that does not report it.
const UNKNOWN: u64 = 1 << 30;

/// The bytes that the process may use.
pub fn usable() -> u64 {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| physical(&text)).unwrap_or(UNKNOWN);
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    limit_files(&groups, &mounts)
        .iter()
        .filter_map(|path| read(path)?.trim().parse().ok())
        .fold(machine, u64::min)
}

/// The machine's memory, from the text of `/proc/meminfo`.
fn physical(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The files that may limit the memory of the process: those of its cgroup and of all parents, of cgroup v1 and v2. A file
/// with the text `max`, or with a number above the machine's memory, sets no limit.
fn limit_files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        // A line has a number, the controllers and the path of the group.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let names: &[&str] = match controllers {
            "" => &["memory.max", "memory.high"],
            list if list.split(',').any(|one| one == "memory") => &["memory.limit_in_bytes"],
            _ => continue,
        };
        for (root, mount) in hierarchies(mounts, controllers.is_empty()) {
            // Within a container the path may be the host's, and only the mounted part of it is visible.
            let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
            for within in below.ancestors() {
                files.extend(names.iter().map(|name| Path::new(mount).join(within).join(name)));
            }
        }
    }
    files
}

/// The mounted cgroup hierarchies: those of v2, or those of v1 with the memory controller. Each is the group at the root
/// of the mount, and the mount point.
fn hierarchies(mounts: &str, unified: bool) -> impl Iterator<Item = (&str, &str)> {
    mounts.lines().filter_map(move |line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut file_system = file_system.split(' ');
        let kind = file_system.next()?;
        let fits = match unified {
            true => kind == "cgroup2",
            false => kind == "cgroup" && file_system.nth(1)?.split(',').any(|option| option == "memory"),
        };
        // The root is relative to the root of the cgroup namespace, and begins with `/..` if it is above that.
        fits.then_some((if root.starts_with("/..") { "/" } else { root }, at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(groups: &str, mounts: &str) -> Vec<String> {
        limit_files(groups, mounts).iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn all_parent_cgroups_count() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
        let expected = [
            "/sys/fs/cgroup/a.slice/b.service/memory.max",
            "/sys/fs/cgroup/a.slice/b.service/memory.high",
            "/sys/fs/cgroup/a.slice/memory.max",
            "/sys/fs/cgroup/a.slice/memory.high",
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/memory.high",
        ];
        assert_eq!(files("0::/a.slice/b.service", mounts), expected);
    }

    #[test]
    fn cgroup_v1_has_a_hierarchy_for_the_memory_controller() {
        let mounts = "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      35 31 0:32 /docker/1 /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let groups = "4:memory:/docker/1/inner\n3:cpuset:/\n0::/";
        let expected = [
            "/sys/fs/cgroup/memory/inner/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/unified/memory.max",
            "/sys/fs/cgroup/unified/memory.high",
        ];
        assert_eq!(files(groups, mounts), expected);
        // If the path is not below the mounted group, the mounted group counts.
        assert_eq!(files("4:memory:/elsewhere", mounts), ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]);
    }

    #[test]
    fn without_cgroups_the_memory_of_the_machine_counts() {
        assert_eq!(physical("MemTotal:       24034508 kB\nMemFree: 1 kB\n"), Some(24_034_508 * 1024));
        assert_eq!(physical("nothing"), None);
        assert!(files("", "").is_empty() && files("rubbish", "rubbish").is_empty());
        assert!(usable() > 0);
    }
}
