//! The names of claims in etcd.
//!
//! etcd keeps the name of a deleted key until its history is compacted, and visits each of them when it compares or reads the
//! range of a lock. With a name for each acquisition, a lock would become slower with each. So a claim that holds at once is
//! named by its lease, and the next claim with that lease has the same name. A claim that waits is named by its owner: its
//! lease is that of all waiters of the process. So is one that holds at once after its request for a place got no answer: that
//! request may still create a key with the name of the owner.
//!
//! # Rules
//!
//! - **Safety.** A lease names the keys of one claim at a time, and those of the next claim only when it is used again by the
//!   rules of `leases.rs`. So no request of the claim before can still create or change a key of this name. A copy of its
//!   deletion that arrives late has no effect, because it compares another create revision.
//!   (`a_deletion_that_compares_nothing_ends_no_later_claim`)
//! - **Safety.** A claim has one name at a time. If a request that names the lease got no answer, and its key is not there, the
//!   lease is ended before the claim asks again.
//!   (`a_request_without_an_answer_is_over_before_its_claim_has_another_name`)
//! - **Safety.** A restored snapshot may bring back the key of an earlier claim with this name. So a claim whose request got no
//!   answer takes a key for its own only if the value has its owner.
//!   (`a_restored_key_is_not_that_of_the_next_claim_with_its_name`)
//! - **Safety.** Nor does a new key take the place of a restored one: a claim beside others compares that there is none of its
//!   name, and a lease that names another key is left to end. (`a_restored_key_is_not_overwritten_by_a_claim_beside_it`)
//! - A lease that its key has exchanged for another one still names the key, so it is not used again.
//!   (`a_lease_that_its_key_has_exchanged_names_no_other`)

use dlock_runtime::store::OwnerId;

use crate::{core::Core, keys};

/// The names that a request is about.
pub(crate) struct Names {
    /// That of the claim if it waits.
    pub(crate) by_owner: Vec<u8>,
    /// Those of all claims on the key.
    pub(crate) all: (Vec<u8>, Vec<u8>),
}

impl Names {
    /// The name of a key that this lease names, or its owner.
    pub(crate) fn own(&self, named_by: Option<i64>) -> Vec<u8> {
        match named_by {
            Some(lease) => keys::claim_with(&self.all, lease),
            None => self.by_owner.clone(),
        }
    }
}

impl Core {
    pub(crate) fn names(&self, key: &str, owner: OwnerId) -> Names {
        let namespace = &self.config.namespace;
        Names {
            by_owner: keys::claim(namespace, key, owner),
            all: keys::range(namespace, key),
        }
    }
}
