//! Tests that the encoding is injective and that every fault is reported.

use std::{borrow::Cow, num::NonZero, rc::Rc};

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::error::LockError;

fn key_of(parts: &[&dyn KeyPart]) -> Result<LockKey, LockError> {
    let mut builder = LockKey::builder().text("k");
    for part in parts {
        builder = builder.text(":").part(*part);
    }
    builder.build()
}

fn fault<T: fmt::Debug>(result: Result<T, LockError>) -> InvalidKeyReason {
    match result.expect_err("it has a fault") {
        LockError::InvalidKey { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

/// The inverse of the encoding, implemented from its definition only.
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

/// A value of any shape.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Text(String),
    Parts(Vec<Tree>),
}

fn text(text: &str) -> Tree {
    Tree::Text(text.to_owned())
}

impl KeyPart for Tree {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        match self {
            Self::Text(text) => out.push_str(text),
            Self::Parts(parts) => parts.iter().for_each(|part| out.push_part(part)),
        }
    }
}

/// Parses a value, implemented from the definition only.
fn tree(value: &str) -> Tree {
    let Some((_, last)) = value.rsplit_once("%3a") else {
        return Tree::Text(decoded(value));
    };
    let mut parts: Vec<&str> = value.split("%3a").collect();
    if last.is_empty() {
        parts.pop();
        assert_eq!(parts.len(), 1, "{value}");
    }
    Tree::Parts(parts.into_iter().map(|part| tree(&decoded(part))).collect())
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = "[a3:%A é]{1,4}|%3a|%3A|a%3ab".prop_map(Tree::Text).boxed();
    leaf.prop_recursive(4, 12, 3, |inner| {
        prop::collection::vec(inner, 1..4).prop_map(Tree::Parts)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn values_of_parts_read_back(a in trees(), b in trees()) {
        let key = match key_of(&[&a, &b]) {
            Ok(key) => key,
            Err(error) => {
                prop_assert_eq!(fault(Err::<(), _>(error)), InvalidKeyReason::TooLong);
                return Ok(());
            }
        };
        let read: Vec<_> = key.as_str().split(':').skip(1).map(tree).collect();
        prop_assert_eq!(read, [a, b]);
    }
}

#[test]
fn parts_are_kept_apart() {
    let parts = |parts: &[Tree]| Tree::Parts(parts.to_vec());
    let [a, b, c] = ["a", "b", "c"].map(text);
    for (value, expected) in [
        (parts(&[text("a:b"), c.clone()]), "a%253Ab%3ac"),
        (parts(&[a.clone(), text("b:c")]), "a%3ab%253Ac"),
        (
            parts(&[parts(&[a.clone(), b.clone()]), c.clone()]),
            "a%253ab%3ac",
        ),
        (parts(&[text("a%3ab"), c.clone()]), "a%25253ab%3ac"),
        (parts(&[a.clone(), b.clone(), c.clone()]), "a%3ab%3ac"),
        (text("a:b:c"), "a%3Ab%3Ac"),
        (parts(std::slice::from_ref(&a)), "a%3a"),
        (parts(&[parts(&[a, b])]), "a%253ab%3a"),
    ] {
        let key = key_of(&[&value]).unwrap();
        assert_eq!(key.as_str(), format!("k:{expected}"), "{value:?}");
    }
}

#[test]
fn text_and_parts_do_not_mix() {
    struct Mixed([&'static str; 2]);
    impl KeyPart for Mixed {
        fn write_part(&self, out: &mut PartWriter<'_>) {
            for step in &self.0 {
                match step.strip_prefix('+') {
                    Some(text) => out.push_str(text),
                    None => out.push_part(step),
                }
            }
        }
    }
    for (steps, expected) in [
        (["+a", "b"], Err(InvalidKeyReason::Mixed)),
        (["a", "+b"], Err(InvalidKeyReason::Mixed)),
        (["a", ""], Err(InvalidKeyReason::EmptyPart)),
        (["", "a"], Err(InvalidKeyReason::EmptyPart)),
        (["+", "a"], Ok("k:a%3a")),
        (["a", "+"], Ok("k:a%3a")),
        (["+a", "+b"], Ok("k:ab")),
    ] {
        let key = key_of(&[&Mixed(steps)]);
        let key = key.as_ref().map(LockKey::as_str);
        assert_eq!(
            key.map_err(|error| fault(Err::<(), _>(error.clone()))),
            expected,
            "{steps:?}"
        );
    }
    assert_eq!(
        fault(key_of(&[&Tree::Parts(Vec::new())])),
        InvalidKeyReason::EmptyPart
    );
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
fn every_integer_and_pointer() {
    macro_rules! integers {
        ($($ty:ty)*) => { $(
            let key = key_of(&[&<$ty>::MAX, &NonZero::<$ty>::MIN]).unwrap();
            let expected = format!("k:{}:{}", <$ty>::MAX, NonZero::<$ty>::MIN);
            assert_eq!(key.as_str(), expected);
        )* };
    }
    integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

    let mut number = 3;
    let key = key_of(&[
        &Box::new(1),
        &Rc::new("a"),
        &&mut number,
        &Arc::new(String::from("b")),
        &Cow::<'_, str>::Owned("c".to_owned()),
        &Box::<dyn KeyPart>::from(Box::new(false)),
    ]);
    assert_eq!(key.unwrap().as_str(), "k:1:a:3:b:c:false");
}

#[test]
fn faults_are_named() {
    assert_eq!(fault(LockKey::new("")), InvalidKeyReason::Empty);
    assert_eq!(fault(LockKey::new("a{b")), InvalidKeyReason::Brace);
    assert_eq!(fault(LockKey::new("a\r\nb")), InvalidKeyReason::Control);
    assert_eq!(
        fault(LockKey::new("x".repeat(513))),
        InvalidKeyReason::TooLong
    );
    assert!(LockKey::new("x".repeat(512)).is_ok());
    assert_eq!(fault(key_of(&[&""])), InvalidKeyReason::EmptyPart);
    let touching = LockKey::builder().part(&1).text("x%é").part(&77);
    assert_eq!(fault(touching.build()), InvalidKeyReason::Undelimited);
    assert_eq!(fault(LockKey::builder().build()), InvalidKeyReason::Empty);
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
    assert_eq!(fault(key_of(&[&Endless])), InvalidKeyReason::TooLong);
    let parts = Tree::Parts(vec![text("a"); 1_000_000]);
    assert_eq!(fault(key_of(&[&parts])), InvalidKeyReason::TooLong);
    let huge = "{".repeat(10_000_000);
    let error = key_of(&[&huge]).unwrap_err().to_string();
    assert!(error.len() < 400, "{}", error.len());
    assert!(LockKey::new(huge).unwrap_err().to_string().len() < 400);
}

#[test]
fn a_key_is_parsed_as_it_is_made_and_is_a_text() {
    let key: LockKey = "report:daily".parse().unwrap();
    assert_eq!(key, LockKey::new("report:daily").unwrap());
    let text: &str = key.as_ref();
    assert_eq!(text, "report:daily");
    assert_eq!(
        fault("report:{daily}".parse::<LockKey>()),
        InvalidKeyReason::Brace
    );
}

#[test]
fn a_deep_value_ends_before_the_stack() {
    /// Nests without end before it writes anything.
    struct Bottomless;
    impl KeyPart for Bottomless {
        fn write_part(&self, out: &mut PartWriter<'_>) {
            out.push_part(self);
            out.push_part(&1);
        }
    }
    assert_eq!(fault(key_of(&[&Bottomless])), InvalidKeyReason::TooLong);

    // The deepest value that fits is not refused for its depth.
    let chain = |depth| (0..depth).fold(text("a"), |inner, _| Tree::Parts(vec![inner]));
    let key = key_of(&[&chain(21)]).unwrap();
    assert_eq!(key.as_str().len(), "k:a".len() + 21 * 23);
    assert_eq!(fault(key_of(&[&chain(22)])), InvalidKeyReason::TooLong);
}
