//! Reads the answers of the scripts.

use std::time::Duration;

use redis::Value;

use super::label::read_label;
use crate::store::{
    AcquireOutcome, Holder, Raised, Released, Renewal, StoreError, redis::protocol::errors,
};

/// A wake-up message that a script could not publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnsentWakeUp<'a> {
    pub(crate) channel: &'a [u8],
    pub(crate) message: &'a [u8],
}

/// Returns the messages that a script has left to its caller to publish, from the end of an answer of `acquire`,
/// `release` or `unlock`.
pub(crate) fn unsent_wake_ups(answer: &Value) -> Vec<UnsentWakeUp<'_>> {
    let rest = match answer {
        Value::Array(fields) => split(fields).map_or(&[][..], |(_, rest)| rest),
        _ => return Vec::new(),
    };
    let pairs = rest.chunks_exact(2).filter_map(|pair| match pair {
        [Value::BulkString(channel), Value::BulkString(message)] => {
            Some(UnsentWakeUp { channel, message })
        }
        _ => None,
    });
    pairs.collect()
}

/// Splits an answer into its own fields and the unsent messages, which are pairs of texts. Returns `None` for
/// another form.
fn split(fields: &[Value]) -> Option<(&[Value], &[Value])> {
    let own = match fields {
        [
            Value::Int(_),
            Value::Int(_),
            Value::Int(_),
            Value::BulkString(_),
            Value::Int(_),
            Value::Int(_),
            ..,
        ] => 6,
        [
            Value::Int(_),
            Value::Int(_),
            Value::Int(_),
            Value::BulkString(_),
            Value::Int(_),
            ..,
        ] => 5,
        [Value::Int(_), Value::BulkString(_), ..] => 1,
        _ => return None,
    };
    let (own, rest) = fields.split_at(own);
    let are_texts = rest.iter().all(|it| matches!(it, Value::BulkString(_)));
    (are_texts && rest.len() % 2 == 0).then_some((own, rest))
}

pub(crate) fn read_acquisition(answer: &Value) -> Result<AcquireOutcome, StoreError> {
    let number = |number: i64| u64::try_from(number).map_err(|_| misshapen("acquire", answer));
    let own = match answer {
        Value::Array(fields) => split(fields).map(|(own, _)| own),
        other => Some(std::slice::from_ref(other)),
    };
    match own {
        Some([Value::Int(granted)]) => Ok(AcquireOutcome::granted(number(*granted)?)),
        Some(
            [
                Value::Int(ttl),
                Value::Int(place),
                Value::Int(last),
                Value::BulkString(label),
                Value::Int(held),
                others @ ..,
            ],
        ) => {
            let (label, function) = read_label(label);
            Ok(AcquireOutcome::Busy(Holder {
                label,
                function,
                // Less than zero: the key has no TTL.
                ttl: u64::try_from(*ttl).ok().map(Duration::from_millis),
                never_ends: *ttl < 0,
                position: u64::try_from(*place).ok(),
                fence: number(*held)?,
                last_fence: number(*last)?,
                is_here: false,
                others: match others {
                    [Value::Int(others)] => number(*others)?,
                    _ => 0,
                },
            }))
        }
        _ => Err(misshapen("acquire", answer)),
    }
}

pub(crate) fn read_renewal(answer: &Value) -> Result<Renewal, StoreError> {
    match answer {
        Value::Int(1) => Ok(Renewal::Renewed),
        Value::Int(0) => Ok(Renewal::NotOwner),
        other => Err(misshapen("renew", other)),
    }
}

pub(crate) fn read_release(answer: &Value) -> Result<Released, StoreError> {
    match outcome(answer) {
        Some(1..=3) => Ok(Released::WasHeld),
        Some(0) => Ok(Released::WasGone),
        _ => Err(misshapen("release", answer)),
    }
}

/// The lock after `unlock`.
#[cfg(feature = "admin")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterUnlock {
    /// It is free.
    Free,
    /// A waiter has it.
    Granted,
    /// Others share it.
    Shared,
}

/// Returns `None` if nothing was done.
#[cfg(feature = "admin")]
pub(crate) fn read_unlock(answer: &Value) -> Result<Option<AfterUnlock>, StoreError> {
    match outcome(answer) {
        Some(0) => Ok(None),
        Some(1) => Ok(Some(AfterUnlock::Free)),
        Some(2) => Ok(Some(AfterUnlock::Granted)),
        Some(3) => Ok(Some(AfterUnlock::Shared)),
        _ => Err(misshapen("unlock", answer)),
    }
}

/// Returns the number that `release` returns, also if messages follow it.
fn outcome(answer: &Value) -> Option<i64> {
    match answer {
        Value::Int(outcome) => Some(*outcome),
        Value::Array(fields) => match split(fields)? {
            ([Value::Int(outcome @ 0..=3)], [_, ..]) => Some(*outcome),
            _ => None,
        },
        _ => None,
    }
}

pub(crate) fn read_raise(answer: &Value) -> Result<Raised, StoreError> {
    match answer {
        Value::Int(1) => Ok(Raised::Raised),
        Value::Int(0) => Ok(Raised::NotOwner),
        other => Err(misshapen("raise", other)),
    }
}

pub(crate) fn misshapen(script: &str, answer: &Value) -> StoreError {
    // An answer of an unknown form may be megabytes long.
    let shown: String = format!("{answer:?}").chars().take(80).collect();
    let shown = errors::quoted(&shown);
    errors::bad_answer(format!("the answer to `{script}` is invalid: {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreErrorKind;

    #[test]
    fn answers_are_read_strictly() {
        let label = |text: &str| Value::BulkString(text.into());
        let busy = |ttl, place, text, fence| {
            let numbers = [ttl, place, 41].map(Value::Int);
            let rest = [label(text), Value::Int(fence)];
            Value::Array(numbers.into_iter().chain(rest).collect())
        };
        assert_eq!(
            read_acquisition(&Value::Int(42)),
            Ok(AcquireOutcome::granted(42))
        );
        assert_eq!(
            read_acquisition(&busy(1500, 0, "a@b/1#shop::settle", 40)),
            Ok(AcquireOutcome::Busy(Holder {
                label: Some("a@b/1".into()),
                function: Some("shop::settle".into()),
                ttl: Some(Duration::from_millis(1500)),
                never_ends: false,
                position: Some(0),
                fence: 40,
                last_fence: 41,
                is_here: false,
                others: 0,
            }))
        );
        for anonymous in ["", "-"] {
            assert_eq!(
                read_acquisition(&busy(-1, -1, anonymous, 0)),
                Ok(AcquireOutcome::Busy(Holder::new(41).never_ends()))
            );
        }
        // A lease that ends at this moment is one that ends.
        let ending = read_acquisition(&busy(0, 2, "", 0));
        let expected = Holder {
            ttl: Some(Duration::ZERO),
            position: Some(2),
            ..Holder::new(41)
        };
        assert_eq!(ending, Ok(AcquireOutcome::Busy(expected)));
        for nonsense in [
            Value::Nil,
            Value::Array(vec![]),
            Value::Int(-1),
            Value::Array(vec![Value::Int(2), Value::Int(3)]),
            label("PONG"),
            Value::SimpleString("a\rb".into()),
        ] {
            let error = read_acquisition(&nonsense).expect_err("it makes no sense");
            assert!(!error.message().contains(char::is_control), "{error:?}");
            assert_eq!(error.kind(), StoreErrorKind::BadAnswer);
            assert!(read_renewal(&nonsense).is_err() && read_release(&nonsense).is_err());
        }
        assert_eq!(read_renewal(&Value::Int(0)), Ok(Renewal::NotOwner));
        for held in 1..=3 {
            assert_eq!(read_release(&Value::Int(held)), Ok(Released::WasHeld));
        }
        assert_eq!(read_release(&Value::Int(0)), Ok(Released::WasGone));
        assert_eq!(read_renewal(&Value::Int(1)), Ok(Renewal::Renewed));
        assert_eq!(read_raise(&Value::Int(1)), Ok(Raised::Raised));
        assert_eq!(read_raise(&Value::Int(0)), Ok(Raised::NotOwner));
        for number in [2, 4, -1].map(Value::Int) {
            assert!(read_renewal(&number).is_err() && read_raise(&number).is_err());
        }
        for number in [4, -1].map(Value::Int) {
            assert!(read_release(&number).is_err());
        }
    }

    #[test]
    fn the_other_holders_of_a_shared_lock_are_counted() {
        let numbers = [1500, 0, 41].map(Value::Int);
        let holder = [Value::BulkString("x".into()), Value::Int(40)];
        let fields: Vec<_> = numbers.into_iter().chain(holder).collect();
        let with = |rest: &[Value]| Value::Array([&fields, rest].concat());
        let others = |answer: &Value| match read_acquisition(answer) {
            Ok(AcquireOutcome::Busy(holder)) => holder.others,
            other => panic!("{other:?}"),
        };
        assert_eq!(others(&with(&[])), 0);
        assert_eq!(others(&with(&[Value::Int(7)])), 7);
        let message = ["dlock:wake:c", "c.1 7 k"].map(|it| Value::BulkString(it.into()));
        let answer = with(&[&[Value::Int(7)], &message[..]].concat());
        assert_eq!((others(&answer), unsent_wake_ups(&answer).len()), (7, 1));
        for rest in [
            &[Value::Int(-1)][..],
            &[Value::Int(7), Value::Int(7)],
            &message[..1],
        ] {
            let answer = with(rest);
            assert!(read_acquisition(&answer).is_err(), "{answer:?}");
            let unsent = unsent_wake_ups(&answer);
            assert!(unsent.is_empty(), "{unsent:?}");
        }
    }

    #[cfg(feature = "admin")]
    #[test]
    fn the_lock_after_a_forced_release_is_told() {
        for (number, expected) in [
            (0, None),
            (1, Some(AfterUnlock::Free)),
            (2, Some(AfterUnlock::Granted)),
            (3, Some(AfterUnlock::Shared)),
        ] {
            assert_eq!(read_unlock(&Value::Int(number)), Ok(expected));
            let message = ["c", "m"].map(|it| Value::BulkString(it.into()));
            let fields = [&[Value::Int(number)], &message[..]].concat();
            assert_eq!(read_unlock(&Value::Array(fields)), Ok(expected));
        }
        for nonsense in [Value::Int(4), Value::Nil, Value::Array(vec![Value::Int(1)])] {
            assert!(read_unlock(&nonsense).is_err(), "{nonsense:?}");
        }
    }

    #[test]
    fn an_answer_of_an_unknown_form_is_quoted_in_part() {
        let error = misshapen("renew", &Value::BulkString(vec![b'x'; 1_000_000]));
        let text = error.message();
        let rest = text.strip_prefix("the answer to `renew` is invalid: ");
        assert!(
            rest.is_some_and(|it| (20..200).contains(&it.len())),
            "{text}"
        );
    }

    #[test]
    fn what_a_script_could_not_publish_comes_with_its_answer() {
        let word = |text: &str| Value::BulkString(text.into());
        let with_message = |fields: &[Value]| {
            let message = [word("dlock:wake:c"), word("c.1 7 k")];
            Value::Array(fields.iter().cloned().chain(message).collect())
        };
        let numbers = [3000, 1, 7].map(Value::Int);
        let busy: Vec<_> = numbers
            .into_iter()
            .chain([word(""), Value::Int(7)])
            .collect();
        let untold_by = [UnsentWakeUp {
            channel: b"dlock:wake:c",
            message: b"c.1 7 k",
        }];

        let answer = with_message(&busy);
        assert_eq!(unsent_wake_ups(&answer), untold_by);
        assert_eq!(
            read_acquisition(&answer),
            read_acquisition(&Value::Array(busy.clone()))
        );
        assert!(read_acquisition(&answer).is_ok());
        assert_eq!(unsent_wake_ups(&Value::Array(busy)), []);

        for outcome in [1, 2, 3] {
            let answer = with_message(&[Value::Int(outcome)]);
            assert_eq!(unsent_wake_ups(&answer), untold_by);
            assert_eq!(read_release(&answer), Ok(Released::WasHeld));
        }
        for nonsense in [
            with_message(&[]),
            with_message(&[word("1")]),
            with_message(&[1, 2].map(Value::Int)),
            Value::Array(vec![Value::Int(1), word("a")]),
        ] {
            assert!(read_release(&nonsense).is_err(), "{nonsense:?}");
        }
        for number in [0, 1, 2] {
            assert_eq!(unsent_wake_ups(&Value::Int(number)), []);
        }
    }
}
