//! The base of fences: a number in etcd to which the create revision of a claim is added.
//!
//! # Rules
//!
//! - **Safety.** A claim is created only with the base that etcd has at that moment, compared in the same transaction. The
//!   base only grows, so fences grow along each queue.
//! - **Safety.** A new connection raises the base until fences have reached the clock, since revisions go back when a
//!   snapshot is restored. Between restores, revisions grow more slowly than the clock's units of 10 µs.
//!   (`tokens_grow_although_a_snapshot_was_restored`)
//! - A full database refuses that. The connection then raises the base before it creates the first claim.

use dlock_runtime::store::StoreError;

use crate::{
    errors, keys,
    proto::{
        Compare, CompareResult, CompareTarget, CompareWith, KeyValue, Op, OpAnswer, RangeRequest,
        RequestOp, TxnResponse,
    },
};

/// Another connection has raised the base in the last second: fences that lag so little need no other base. In units of
/// 10 µs.
const RAISED_JUST_NOW: u64 = 100_000;

/// The base as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) value: u64,
    /// The revision at which it was written, 0 if it was never.
    pub(crate) modified: i64,
}

impl Base {
    fn read(kv: Option<&KeyValue>) -> Result<Self, StoreError> {
        let Some(kv) = kv else {
            return Ok(Self::default());
        };
        let text = std::str::from_utf8(&kv.value).ok();
        let value = text.and_then(|text| text.parse().ok()).ok_or_else(|| {
            let name = String::from_utf8_lossy(&kv.key);
            errors::bad_answer(&format!("`{name}` is not a number; delete that key"))
        })?;
        Ok(Self {
            value,
            modified: kv.mod_revision,
        })
    }

    /// Holds if the base is still the same.
    pub(crate) fn is_unchanged(self, namespace: &str) -> Compare {
        Compare {
            result: CompareResult::Equal as i32,
            target: CompareTarget::Mod as i32,
            key: keys::base(namespace),
            with: Some(CompareWith::ModRevision(self.modified)),
            range_end: Vec::new(),
        }
    }
}

/// The request that reads the base. Its answer needs a majority.
pub(crate) fn read_request(namespace: &str) -> RangeRequest {
    RangeRequest {
        key: keys::base(namespace),
        range_end: Vec::new(),
    }
}

/// Reads the base with a transaction.
pub(crate) fn read_op(namespace: &str) -> RequestOp {
    Op::Range(read_request(namespace)).into()
}

/// The base in the answer to [`read_op`], which is this operation of the transaction.
pub(crate) fn of_answer(answer: &TxnResponse, index: usize) -> Result<Base, StoreError> {
    let read = answer
        .responses
        .get(index)
        .and_then(|it| it.response.as_ref());
    match read {
        Some(OpAnswer::Range(range)) => Base::read(range.kvs.first()),
        _ => Err(errors::bad_answer("a transaction without its answers")),
    }
}

/// The base to write, if the present one is too small.
pub(crate) fn raised(base: Base, revision: u64, clock: u64) -> Option<u64> {
    let is_late = base.value + revision + RAISED_JUST_NOW < clock;
    let needed = clock.saturating_sub(revision).max(1);
    (base.modified == 0 || is_late).then(|| needed.max(base.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_reach_the_clock_and_the_base_never_falls() {
        let clock = 90_000_000_000;
        let none = Base::default();
        assert_eq!(raised(none, 5, clock), Some(clock - 5));
        // The clock of the other client was ahead, or revisions have grown faster than the clock.
        let ahead = Base {
            value: clock + 9,
            modified: 1,
        };
        assert_eq!(raised(ahead, 5, clock), None);
        // A restored snapshot: the base of long ago, and a smaller revision.
        let old = Base {
            value: clock - 10_000_000,
            modified: 3,
        };
        assert_eq!(raised(old, 100, clock), Some(clock - 100));
        assert_eq!(raised(none, clock + 1, clock), Some(1));
        let just_now = Base {
            value: clock - 50_000,
            modified: 3,
        };
        assert_eq!(raised(just_now, 100, clock), None);
    }

    #[test]
    fn a_base_that_lags_by_a_second_is_kept() {
        let clock = 90_000_000_000;
        let base = |behind| Base {
            value: clock - 100 - behind,
            modified: 3,
        };
        assert_eq!(raised(base(RAISED_JUST_NOW), 100, clock), None);
        let late = base(RAISED_JUST_NOW + 1);
        assert_eq!(raised(late, 100, clock), Some(clock - 100));
    }

    #[test]
    fn a_base_that_another_program_has_written_is_named() {
        let answer = |value: &[u8]| {
            let kv = KeyValue {
                key: b"shop//fence".to_vec(),
                mod_revision: 7,
                value: value.to_vec(),
                ..KeyValue::default()
            };
            let range = crate::proto::RangeResponse {
                header: None,
                kvs: vec![kv],
            };
            TxnResponse {
                responses: vec![range.into()],
                ..TxnResponse::default()
            }
        };
        let read = Base {
            value: 42,
            modified: 7,
        };
        assert_eq!(of_answer(&answer(b"42"), 0), Ok(read));
        for foreign in [&b"mine"[..], b"", b"\xff"] {
            let error = of_answer(&answer(foreign), 0).unwrap_err();
            let words = "`shop//fence` is not a number; delete that key";
            assert_eq!(error.message(), words);
        }
        let error = of_answer(&answer(b"42"), 1).unwrap_err();
        assert_eq!(error.message(), "a transaction without its answers");
    }
}
