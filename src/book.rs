//! How-to pages, reference and explanation.
//!
//! Each page is a module here, so that its links, and those that lead to it, work without the repository.

/// The links between pages. In the repository they lead to files; the first definition of a name counts.
macro_rules! links {
    () => {
        "[cli]: crate::book::cli\n\
         [errors#forked]: crate::book::errors#forked\n\
         [errors#other-process]: crate::book::errors#other-process\n\
         [guarantees]: crate::book::guarantees\n\
         [guarantees#a-section-that-was-woken]: crate::book::guarantees#a-section-that-was-woken\n\
         [guarantees#clocks-in-one-place]: crate::book::guarantees#clocks-in-one-place\n\
         [guarantees#replicas-and-sentinel]: crate::book::guarantees#replicas-and-sentinel\n\
         [metrics]: crate::book::metrics\n\
         [migration#moving-a-running-system]: crate::book::migration#moving-a-running-system\n\
         [operations#cost-of-looking-at-locks]: crate::book::operations#cost-of-looking-at-locks\n\
         [operations#forks]: crate::book::operations#forks\n\
         [operations#rights]: crate::book::operations#rights\n\
         [operations#which-servers]: crate::book::operations#which-servers\n\
         [operations#with-clients-in-other-languages]: crate::book::operations#with-clients-in-other-languages\n\
         [protocol]: crate::book::protocol\n"
    };
}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/migration.md")]
pub mod migration {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/operations.md")]
pub mod operations {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/cli.md")]
pub mod cli {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/errors.md")]
pub mod errors {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/metrics.md")]
pub mod metrics {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/protocol.md")]
pub mod protocol {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/versions.md")]
pub mod versions {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/explanation/alternatives.md")]
pub mod alternatives {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/explanation/guarantees.md")]
pub mod guarantees {}
