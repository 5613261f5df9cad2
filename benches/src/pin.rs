//! Keeps servers and measured processes on processors of their own.
//!
//! A scheduler that moves them changes the cost of a message between 40 and 100 µs from one run to the next. On
//! processors of their own, all peers of a workload meet the same conditions.

use std::fmt;
use std::str::FromStr;

use crate::Failure;

/// Some processors, by their numbers: `2,3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Processors(Vec<usize>);

/// Which processors the servers have, and which the measured processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Pinned {
        servers: Processors,
        clients: Processors,
    },
    /// The scheduler chooses, for this reason.
    Unpinned(String),
}

impl Layout {
    /// The layout of this machine, as far as this process may use it.
    pub(crate) fn of_machine() -> Self {
        let layout = available().and_then(|it| Self::of(&it));
        let tried = layout.and_then(|layout| {
            // Some sandboxes show processors and allow no choice among them.
            drop(layout.enter_servers(0)?);
            Ok(layout)
        });
        tried.unwrap_or_else(|reason| Self::Unpinned(reason.to_string()))
    }

    /// Half of the processors are the servers', the rest the clients'.
    fn of(available: &[usize]) -> Result<Self, Failure> {
        if available.len() < 2 {
            return Err("this process may use one processor only".into());
        }
        let (servers, clients) = available.split_at(available.len() / 2);
        Ok(Self::Pinned {
            servers: Processors(servers.to_vec()),
            clients: Processors(clients.to_vec()),
        })
    }

    /// The processors of a measured process, if it is to be pinned.
    pub(crate) fn clients(&self) -> Option<&Processors> {
        match self {
            Self::Pinned { clients, .. } => Some(clients),
            Self::Unpinned(_) => None,
        }
    }

    /// Puts this thread on the processor of the server with this number, until the result is dropped: a process that
    /// is started meanwhile stays there.
    pub(crate) fn enter_servers(&self, number: usize) -> Result<Option<Pinned>, Failure> {
        let Self::Pinned { servers, .. } = self else {
            return Ok(None);
        };
        let before = Processors(available()?);
        let one = servers.0[number % servers.0.len()];
        Processors(vec![one]).enter()?;
        Ok(Some(Pinned(before)))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned { servers, clients } => {
                write!(f, "servers on processors {servers}, clients on {clients}")
            }
            Self::Unpinned(reason) => {
                write!(f, "unpinned, so ratios vary from run to run: {reason}")
            }
        }
    }
}

/// A thread that is pinned until this is dropped.
#[derive(Debug)]
pub(crate) struct Pinned(Processors);

impl Drop for Pinned {
    fn drop(&mut self) {
        // The thread was allowed there a moment ago. If it is not any more, only the measurement suffers.
        self.0.enter().ok();
    }
}

impl Processors {
    /// Puts this thread, and those that it starts from now on, on these processors.
    pub(crate) fn enter(&self) -> Result<(), Failure> {
        set(&self.0).map_err(|error| format!("processors {self}: {error}").into())
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

impl FromStr for Processors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |word: &str| {
            let number = word.parse().ok().filter(|it| *it < MOST);
            number.ok_or_else(|| format!("`{word}` is not the number of a processor"))
        };
        text.split(',')
            .map(number)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(target_os = "linux")]
const MOST: usize = rustix::thread::CpuSet::MAX_CPU;
#[cfg(not(target_os = "linux"))]
const MOST: usize = 1024;

/// The processors that this thread may use.
#[cfg(target_os = "linux")]
fn available() -> Result<Vec<usize>, Failure> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..MOST).filter(|&it| set.is_set(it)).collect())
}

#[cfg(target_os = "linux")]
fn set(processors: &[usize]) -> Result<(), Failure> {
    let mut set = rustix::thread::CpuSet::new();
    for &it in processors {
        set.set(it);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

#[cfg(not(target_os = "linux"))]
fn available() -> Result<Vec<usize>, Failure> {
    Err("this operating system has no affinity that can be set".into())
}

#[cfg(not(target_os = "linux"))]
fn set(_processors: &[usize]) -> Result<(), Failure> {
    Err("this operating system has no affinity that can be set".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(available: &[usize]) -> String {
        let layout = Layout::of(available).unwrap_or_else(|it| Layout::Unpinned(it.to_string()));
        layout.to_string()
    }

    #[test]
    fn servers_and_clients_share_no_processor() {
        let pinned =
            |servers, clients| format!("servers on processors {servers}, clients on {clients}");
        assert_eq!(shown(&[0, 1]), pinned("0", "1"));
        assert_eq!(shown(&[2, 3, 7]), pinned("2", "3,7"));
        assert_eq!(shown(&[0, 1, 2, 3]), pinned("0,1", "2,3"));
    }

    #[test]
    fn one_processor_is_not_divided() {
        let text = shown(&[5]);
        assert!(
            text.starts_with("unpinned") && text.contains("one processor"),
            "{text}"
        );
        assert_eq!(Layout::Unpinned(String::new()).clients(), None);
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let read: Processors = "2,13".parse().unwrap();
        assert_eq!(read.to_string(), "2,13");
        for wrong in ["", "1,", "a", "-1", "99999"] {
            assert!(wrong.parse::<Processors>().is_err(), "{wrong}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_comes_back_to_all_its_processors() {
        let before = available().unwrap();
        if let pinned @ Layout::Pinned { .. } = Layout::of_machine() {
            let entered = pinned.enter_servers(0).unwrap();
            assert_eq!(available().unwrap().len(), 1);
            drop(entered);
        }
        assert_eq!(available().unwrap(), before);
    }
}
