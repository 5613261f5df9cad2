//! The documents whose code needs crates that the library itself does without: blocks of Rust in them
//! are tests of the documentation of this package.

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
