//! Newtypes and structs.

use std::{borrow::Cow, marker::PhantomData, num::NonZero, rc::Rc, sync::Arc};

use dlock::{InvalidKeyReason, KeyPart};

use crate::key_parts::{fault, rendered};

#[derive(KeyPart)]
struct Sku(String);

#[derive(KeyPart)]
struct Named {
    id: Sku,
}

#[derive(KeyPart)]
struct Invoice {
    shop: String,
    number: u32,
}

#[derive(KeyPart)]
struct Pair(Invoice, Sku);

#[test]
fn one_field_is_the_value() {
    assert_eq!(rendered(&Sku("a/b".to_owned())), "a%2Fb");
    let named = Named {
        id: Sku("c".to_owned()),
    };
    assert_eq!(rendered(&named), "c");
    assert_eq!(fault(&Sku(String::new())), InvalidKeyReason::EmptyPart);
}

#[test]
fn several_fields_are_kept_apart() {
    let invoice = |shop: &str, number| Invoice {
        shop: shop.to_owned(),
        number,
    };
    assert_eq!(rendered(&invoice("north", 7)), "north%3a7");
    assert_eq!(rendered(&invoice("a:1", 7)), "a%253A1%3a7");
    assert_eq!(rendered(&invoice("a%3a1", 7)), "a%25253a1%3a7");
    assert_eq!(fault(&invoice("", 7)), InvalidKeyReason::EmptyPart);
    assert_eq!(
        fault(&invoice(&"x".repeat(600), 7)),
        InvalidKeyReason::TooLong
    );

    let pair = Pair(invoice("a", 1), Sku("b".to_owned()));
    assert_eq!(rendered(&pair), "a%253a1%3ab");
}

#[test]
fn by_reference_and_pointer() {
    let sku = || Sku("a".to_owned());
    assert_eq!(rendered(&&sku()), "a");
    assert_eq!(rendered(&Box::new(sku())), "a");
    assert_eq!(rendered(&Rc::new(sku())), "a");
    assert_eq!(rendered(&(Arc::new(sku()) as Arc<dyn KeyPart>)), "a");
}

#[test]
fn fields_of_every_type() {
    #[derive(KeyPart)]
    struct All<'a> {
        large: u128,
        negative: i128,
        number: NonZero<u16>,
        flag: bool,
        letter: char,
        text: &'a str,
        owned: String,
        exclusive: &'a mut u8,
        boxed: Box<str>,
        shared: Arc<str>,
        counted: Rc<i64>,
        cow: Cow<'a, str>,
        any: Box<dyn KeyPart>,
    }

    let mut exclusive = 7;
    let all = All {
        large: u128::MAX,
        negative: -1,
        number: NonZero::<u16>::MIN,
        flag: true,
        letter: 'ß',
        text: "a",
        owned: "b".to_owned(),
        exclusive: &mut exclusive,
        boxed: "c".into(),
        shared: "d".into(),
        counted: Rc::new(-2),
        cow: "e".into(),
        any: Box::new(false),
    };
    let expected = [
        "340282366920938463463374607431768211455",
        "-1",
        "1",
        "true",
        "ß",
        "a",
        "b",
        "7",
        "c",
        "d",
        "-2",
        "e",
        "false",
    ];
    assert_eq!(rendered(&all), expected.join("%3a"));
}

#[test]
fn fields_can_be_left_out() {
    #[derive(KeyPart)]
    struct Order {
        id: u64,
        #[key_part(skip)]
        lines: Vec<Option<f64>>,
        kind: PhantomData<Vec<u8>>,
    }

    let order = Order {
        id: 7,
        lines: vec![None],
        kind: PhantomData,
    };
    assert_eq!(rendered(&order), "7");
    assert_eq!((order.lines.len(), order.kind), (1, PhantomData));
}
