//! The documents whose code needs crates that the library itself does without: blocks of Rust in them
//! are tests of the documentation of this package. And what the attribute makes of text.
//!
//! A crate of macros cannot be linked, so its modules of pure text are compiled here once more. In a library
//! and not in an executable of tests, where their unit tests would be compiled with them and run again.

#[path = "../dlock-macros/src/duration.rs"]
mod duration;
#[allow(dead_code, reason = "mistakes in text need less than those in code")]
#[path = "../dlock-macros/src/fault.rs"]
mod fault;
#[allow(dead_code, reason = "nobody underlines a name here")]
#[rustfmt::skip]
#[path = "../dlock-macros/src/template.rs"]
mod template;

pub mod fuzzing;

use std::time::Duration;

/// The shortest and the longest TTL that the attribute accepts.
pub const TTLS: [Duration; 2] = [duration::SHORTEST_TTL, duration::LONGEST_TTL];

/// The mistakes that the attribute finds in the template of a key.
#[must_use]
pub fn faults(template: &str) -> Vec<String> {
    let faults = template::parse(template).faults;
    faults.iter().map(|(_, fault)| fault.to_string()).collect()
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../docs/book/src/introduction.md")]
mod introduction {}

#[cfg(doctest)]
#[doc = include_str!("../docs/book/src/how-to/web.md")]
mod web {}

#[cfg(doctest)]
#[doc = include_str!("../docs/book/src/how-to/seeing-locks.md")]
mod seeing_locks {}

#[cfg(doctest)]
#[doc = include_str!("../docs/book/src/how-to/postgresql.md")]
mod postgresql {}

#[cfg(doctest)]
#[doc = include_str!("../docs/book/src/how-to/etcd.md")]
mod etcd {}

#[cfg(doctest)]
#[doc = include_str!("../docs/book/src/how-to/zookeeper.md")]
mod zookeeper {}
