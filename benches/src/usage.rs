//! The processor time and memory of this process, where the system has a file about them.

use std::fs;
use std::time::Duration;

/// The use so far; zero where the system has no such file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// Bytes that lie in memory now.
    pub(crate) resident: u64,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let page = u64::try_from(rustix::param::page_size()).expect("a page is not that large");
        fs::read_to_string("/proc/self/stat")
            .ok()
            .and_then(|stat| Self::read(&stat, page))
            .unwrap_or_default()
    }

    fn read(stat: &str, page: u64) -> Option<Self> {
        // The name of the program stands first and may contain anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<_> = fields.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        // In units that Linux has kept at 10 ms for all programs.
        let time = |index| Some(Duration::from_millis(number(index)? * 10));
        Some(Self {
            user: time(11)?,
            system: time(12)?,
            resident: number(21)? * page,
        })
    }

    /// The processor time.
    pub(crate) fn processor(&self) -> Duration {
        self.user + self.system
    }

    /// The use since `earlier`, and the present memory.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            resident: self.resident,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_the_name() {
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 3 0 99 1000 12 1 1";
        let usage = Usage::read(stat, 4096).unwrap();
        assert_eq!(usage.processor(), Duration::from_millis(1750));
        assert_eq!(usage.resident, 12 * 4096);
        assert_eq!(Usage::read("7 (a) S 1", 4096), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_memory() {
        assert!(Usage::now().resident > 100_000);
    }
}
