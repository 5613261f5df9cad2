//! The encoding is injective, and every fault has its name.

use std::borrow::Cow;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn key_of(parts: &[&dyn KeyPart]) -> Result<LockKey, LockError> {
    let mut builder = LockKey::builder().text("k");
    for part in parts {
        builder = builder.text(":").part(*part);
    }
    builder.finish()
}

fn fault<T: fmt::Debug>(result: Result<T, LockError>) -> KeyFault {
    match result.expect_err("it has a fault") {
        LockError::InvalidKey { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

/// The inverse of the encoding, written from its definition alone.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let hex = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(str::from_utf8(&hex).unwrap(), 16).unwrap()
            }
            _ => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_value_reads_back(values in prop::collection::vec("(?s).{1,12}", 1..5)) {
        let parts: Vec<&dyn KeyPart> = values.iter().map(|value| value as _).collect();
        let key = key_of(&parts).unwrap();
        let read: Vec<_> = key.as_str().split(':').skip(1).map(decoded).collect();
        prop_assert_eq!(read, values);
        let reserved = |c: char| c.is_control() || ['{', '}', '<', '>', ' '].contains(&c);
        prop_assert!(!key.as_str().chars().any(reserved));
    }

    #[test]
    fn different_values_give_different_keys(
        a in ("[a:%/{ é]{1,4}", "[a:%/{ é]{1,4}"), b in ("[a:%/{ é]{1,4}", "[a:%/{ é]{1,4}"),
    ) {
        let same = key_of(&[&a.0, &a.1]).unwrap() == key_of(&[&b.0, &b.1]).unwrap();
        prop_assert_eq!(same, a == b);
    }
}

#[test]
fn all_kinds_of_values() {
    let uuid = Uuid::nil();
    let shared: Arc<str> = "x".into();
    let cow: Cow<'_, str> = Cow::Borrowed("y");
    let key = key_of(&[
        &-5_i64,
        &u128::MAX,
        &true,
        &'ß',
        &uuid,
        &shared,
        &cow,
        &&&7_u8,
    ]);
    assert_eq!(
        key.unwrap().as_str(),
        "k:-5:340282366920938463463374607431768211455:true:ß:\
         00000000-0000-0000-0000-000000000000:x:y:7"
    );
}

#[test]
fn faults_are_named() {
    assert_eq!(fault(LockKey::new("")), KeyFault::Empty);
    assert_eq!(fault(LockKey::new("a{b")), KeyFault::Brace);
    assert_eq!(fault(LockKey::new("a\r\nb")), KeyFault::Control);
    assert_eq!(fault(LockKey::new("x".repeat(513))), KeyFault::TooLong);
    assert!(LockKey::new("x".repeat(512)).is_ok());
    assert_eq!(fault(key_of(&[&""])), KeyFault::EmptyPart);
    let touching = LockKey::builder().part(&1).text("x%é").part(&77);
    assert_eq!(fault(touching.finish()), KeyFault::Undelimited);
    assert_eq!(fault(LockKey::builder().finish()), KeyFault::Empty);
}

#[test]
fn a_huge_value_costs_no_more_than_a_key() {
    struct Endless;
    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                f.write_str("endless ")?;
            }
        }
    }
    impl KeyPart for Endless {
        fn write_part(&self, out: &mut PartWriter<'_>) {
            out.push_display(&Endless);
        }
    }
    assert_eq!(fault(key_of(&[&Endless])), KeyFault::TooLong);
    let huge = "{".repeat(10_000_000);
    let error = key_of(&[&huge]).unwrap_err().to_string();
    assert!(error.len() < 400, "{}", error.len());
    assert!(LockKey::new(huge).unwrap_err().to_string().len() < 400);
}
