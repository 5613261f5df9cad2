//! What the answers of the scripts mean.

use std::time::Duration;

use redis::Value;

use super::read_label;
use crate::store::{Acquisition, Holder, Raised, Released, Renewal, StoreError, redis::errors};

pub(in crate::store::redis) fn read_acquisition(answer: &Value) -> Result<Acquisition, StoreError> {
    let fence = |fence: i64| u64::try_from(fence).map_err(|_| misshapen("acquire", answer));
    match answer {
        Value::Int(granted) => Ok(Acquisition::Granted {
            fence: fence(*granted)?,
        }),
        Value::Array(fields) => match fields.as_slice() {
            [
                Value::Int(ttl),
                Value::Int(place),
                Value::Int(last),
                Value::BulkString(label),
                Value::Int(held),
            ] => {
                let (label, function) = read_label(label);
                Ok(Acquisition::Busy(Holder {
                    label,
                    function,
                    // Less than zero: no time to live.
                    ttl: u64::try_from(*ttl).ok().map(Duration::from_millis),
                    position: u64::try_from(*place).ok(),
                    fence: fence(*held)?,
                    last_fence: fence(*last)?,
                    is_here: false,
                }))
            }
            _ => Err(misshapen("acquire", answer)),
        },
        _ => Err(misshapen("acquire", answer)),
    }
}

pub(in crate::store::redis) fn read_renewal(answer: &Value) -> Result<Renewal, StoreError> {
    match answer {
        Value::Int(1) => Ok(Renewal::Renewed),
        Value::Int(0) => Ok(Renewal::NotOwner),
        other => Err(misshapen("renew", other)),
    }
}

pub(in crate::store::redis) fn read_release(answer: &Value) -> Result<Released, StoreError> {
    match answer {
        Value::Int(1 | 2) => Ok(Released::WasHeld),
        Value::Int(0) => Ok(Released::WasGone),
        other => Err(misshapen("release", other)),
    }
}

pub(in crate::store::redis) fn read_raise(answer: &Value) -> Result<Raised, StoreError> {
    match answer {
        Value::Int(1) => Ok(Raised::Raised),
        Value::Int(0) => Ok(Raised::NotOwner),
        other => Err(misshapen("raise", other)),
    }
}

pub(in crate::store::redis) fn misshapen(script: &str, answer: &Value) -> StoreError {
    // Whatever answers may send megabytes.
    let shown: String = format!("{answer:?}").chars().take(80).collect();
    let shown = errors::quoted(&shown);
    errors::bad_answer(format!("the answer to `{script}` makes no sense: {shown}"))
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
            Ok(Acquisition::Granted { fence: 42 })
        );
        assert_eq!(
            read_acquisition(&busy(1500, 0, "a@b/1#shop::settle", 40)),
            Ok(Acquisition::Busy(Holder {
                label: Some("a@b/1".into()),
                function: Some("shop::settle".into()),
                ttl: Some(Duration::from_millis(1500)),
                position: Some(0),
                fence: 40,
                last_fence: 41,
                is_here: false,
            }))
        );
        for anonymous in ["", "-"] {
            assert_eq!(
                read_acquisition(&busy(-1, -1, anonymous, 0)),
                Ok(Acquisition::Busy(Holder {
                    last_fence: 41,
                    ..Holder::default()
                }))
            );
        }
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
        assert_eq!(read_release(&Value::Int(2)), Ok(Released::WasHeld));
        assert_eq!(read_release(&Value::Int(0)), Ok(Released::WasGone));
    }
}
