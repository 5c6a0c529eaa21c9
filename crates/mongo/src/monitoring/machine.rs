//! Facts about the machine for `hostInfo` and `serverStatus`, read from `/proc` on systems that have it.

use std::fs;

/// The host's name, or `localhost` if the system does not tell it.
pub(crate) fn hostname() -> String {
    let named = fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
    named.ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}

/// How many cores the process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The machine's memory in bytes, or 0 if the system does not tell it.
pub(crate) fn memory_bytes() -> u64 {
    kilobytes("/proc/meminfo", "MemTotal:") * 1024
}

/// The process's resident memory in bytes, or 0 if the system does not tell it.
pub(crate) fn resident_bytes() -> u64 {
    kilobytes("/proc/self/status", "VmRSS:") * 1024
}

/// The number on the line of `file` that begins with `name`.
fn kilobytes(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The operating system's family under MongoDB's name.
pub(crate) fn os_family() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        "windows" => "Windows",
        other => other,
    }
}

/// The name of the distribution and the version of the kernel.
pub(crate) fn os_release() -> (String, String) {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or_else(|| std::env::consts::OS.to_owned(), |name| name.trim_matches('"').to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    (name, format!("Kernel {}", kernel.trim()))
}
