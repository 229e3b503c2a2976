//! How much memory the process has to itself.

use std::path::Path;

/// Taken where nothing says how much there is.
const UNKNOWN: u64 = 2 << 30;

/// Bytes of memory: the machine's, or what the control group that confines the process allows.
pub(crate) fn available() -> u64 {
    let text = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let group = text("/proc/self/cgroup");
    let own = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").trim_end_matches('/').to_string();
    let limits = [
        format!("/sys/fs/cgroup{own}/memory.max"),
        "/sys/fs/cgroup/memory.max".into(),
        "/sys/fs/cgroup/memory/memory.limit_in_bytes".into(),
    ];
    least(&text("/proc/meminfo"), limits.iter().map(|path| text(path)))
}

/// The machine's memory, or the least of the limits that are numbers.
fn least(meminfo: &str, limits: impl Iterator<Item = String>) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let total = total.map_or(UNKNOWN, |kib| kib.saturating_mul(1024));
    limits.filter_map(|text| text.trim().parse::<u64>().ok()).fold(total, u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_that_anybody_allows_is_what_there_is() {
        let machine = "MemTotal:       16384 kB\nMemFree:  1 kB\n";
        let of = |limits: &[&str]| least(machine, limits.iter().map(ToString::to_string));
        assert_eq!(of(&["max\n", ""]), 16 << 20);
        assert_eq!(of(&["9223372036854771712", "1048576\n"]), 1 << 20);
        assert_eq!(least("", std::iter::empty()), UNKNOWN);
        assert!(available() > 0);
    }
}
