//! How much memory the process may use: what the machine has, or less where control groups limit it.

use std::fs;
use std::path::{Path, PathBuf};

/// The memory of a machine that does not say.
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

/// The files that may limit the memory of the process: those of its control group and of all groups around it, of both
/// versions. A file that says `max`, or a number beyond the machine's memory, limits nothing.
fn limit_files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        // A number, the controllers, the path of the group.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let names: &[&str] = match controllers {
            "" => &["memory.max", "memory.high"],
            list if list.split(',').any(|one| one == "memory") => &["memory.limit_in_bytes"],
            _ => continue,
        };
        for (root, mount) in hierarchies(mounts, controllers.is_empty()) {
            // Within a container the path may be the host's, of which only the mounted part is seen.
            let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
            for within in below.ancestors() {
                files.extend(names.iter().map(|name| Path::new(mount).join(within).join(name)));
            }
        }
    }
    files
}

/// The mounted hierarchies of control groups, of version 2 or of version 1 with the memory controller: the group at the
/// root of the mount, and where that is mounted.
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
        // A root above the process' own, in another namespace, begins with dots.
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
    fn all_groups_around_the_process_count() {
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
    fn the_first_version_has_a_hierarchy_for_memory() {
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
        // Of a path that is not below the mounted part, the mounted part counts.
        assert_eq!(files("4:memory:/elsewhere", mounts), ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]);
    }

    #[test]
    fn a_machine_without_control_groups_has_its_memory() {
        assert_eq!(physical("MemTotal:       24034508 kB\nMemFree: 1 kB\n"), Some(24_034_508 * 1024));
        assert_eq!(physical("nothing"), None);
        assert!(files("", "").is_empty() && files("rubbish", "rubbish").is_empty());
        assert!(usable() > 0);
    }
}
