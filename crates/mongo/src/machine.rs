//! What `hostInfo` and `serverStatus` tell about the machine; read from `/proc` where there is one.

use std::fs;

/// The host's name.
pub(crate) fn hostname() -> String {
    let named = fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
    named.ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}

/// How many cores this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The machine's memory; 0 where it cannot be found out.
pub(crate) fn memory_bytes() -> u64 {
    kilobytes("/proc/meminfo", "MemTotal:") * 1024
}

/// The memory that this process holds; 0 where it cannot be found out.
pub fn resident_bytes() -> u64 {
    kilobytes("/proc/self/status", "VmRSS:") * 1024
}

fn kilobytes(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The family of the operating system, as MongoDB names it.
pub(crate) fn kind() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        "windows" => "Windows",
        other => other,
    }
}

/// Name and version of the operating system.
pub(crate) fn system() -> (String, String) {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or_else(|| std::env::consts::OS.to_owned(), |name| name.trim_matches('"').to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    (name, format!("Kernel {}", kernel.trim()))
}
