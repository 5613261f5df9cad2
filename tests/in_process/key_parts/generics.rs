//! Parameters, and which bounds the impl asks for.

use std::{fmt::Debug, marker::PhantomData};

use dlock::{KeyPart, PartWriter};

use crate::key_parts::rendered;

/// Cannot be part of a key.
struct Customer;

#[derive(KeyPart)]
struct Id<T>(u64, PhantomData<T>);

#[derive(KeyPart)]
struct Typed<T> {
    id: Id<T>,
    #[key_part(skip)]
    _value: Option<T>,
}

#[derive(KeyPart)]
struct Tagged<T, U = u8>
where
    T: Debug,
{
    tag: T,
    twice: T,
    value: Box<U>,
}

#[derive(KeyPart)]
struct Borrowed<'a, 'b: 'a, T: ?Sized + 'a> {
    first: &'a T,
    second: &'b str,
}

#[derive(KeyPart)]
struct Tail<T: ?Sized> {
    head: u8,
    tail: T,
}

#[derive(KeyPart)]
struct Alone<T: ?Sized>(T);

struct Fixed<const N: usize>([u8; N]);

impl<const N: usize> KeyPart for Fixed<N> {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        self.0.iter().for_each(|byte| out.push_part(byte));
    }
}

#[derive(KeyPart)]
struct Hashed<const N: usize = 2> {
    hash: Fixed<N>,
    kind: Fixed<1>,
}

trait Entity {
    type Key;
}

impl Entity for Customer {
    type Key = u32;
}

#[derive(KeyPart)]
struct Row<E: Entity> {
    key: E::Key,
    full: <E as Entity>::Key,
}

/// The bound on its field names a type that others cannot.
#[derive(KeyPart)]
pub(super) struct Public<T>(Id<T>);

/// Its parameter stands in odd places.
#[derive(KeyPart)]
struct Odd<T> {
    call: PerType<fn(value: T) -> u8>,
    list: PerType<[(T, u8); 3]>,
}

struct PerType<T: ?Sized>(PhantomData<T>);

impl<T> KeyPart for PerType<fn(T) -> u8> {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        out.push_str("call");
    }
}

impl KeyPart for PerType<[(u8, u8); 3]> {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        out.push_str("list");
    }
}

#[test]
fn only_types_in_the_key_are_bound() {
    assert_eq!(rendered(&Public(Id::<Customer>(6, PhantomData))), "6");
    let odd = Odd::<u8> {
        call: PerType(PhantomData),
        list: PerType(PhantomData),
    };
    assert_eq!(rendered(&odd), "call%3alist");

    assert_eq!(rendered(&Id::<Customer>(7, PhantomData)), "7");
    let typed = Typed {
        id: Id(8, PhantomData),
        _value: Some(Customer),
    };
    assert_eq!(rendered(&typed), "8");
    let row = Row::<Customer> { key: 1, full: 2 };
    assert_eq!(rendered(&row), "1%3a2");
}

#[test]
fn parameters_of_every_kind() {
    let tagged = Tagged {
        tag: "a",
        twice: "b",
        value: Box::new(1_u8),
    };
    assert_eq!(rendered(&tagged), "a%3ab%3a1");
    let borrowed = Borrowed {
        first: "a",
        second: "b",
    };
    assert_eq!(rendered(&borrowed), "a%3ab");
    let hashed = Hashed {
        hash: Fixed([1, 2]),
        kind: Fixed([3]),
    };
    assert_eq!(rendered(&hashed), "1%253a2%3a3%253a");
}

#[test]
fn fields_without_a_size() {
    let tail: &Tail<dyn KeyPart> = &Tail {
        head: 1,
        tail: "a:b",
    };
    assert_eq!(rendered(&tail), "1%3aa%253Ab");
    let alone: &Alone<dyn KeyPart> = &Alone("a:b");
    assert_eq!(rendered(&alone), "a%3Ab");
}

/// An `Option` of one's own.
enum Perhaps<T> {
    No,
    Yes(Box<T>),
}

impl<T: KeyPart> KeyPart for Perhaps<T> {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        match self {
            Self::No => out.push_str("no"),
            Self::Yes(value) => out.push_part(value),
        }
    }
}

#[derive(KeyPart)]
struct Path {
    name: String,
    parent: Perhaps<Path>,
}

#[derive(KeyPart)]
struct Chain<T> {
    value: T,
    next: Perhaps<Chain<T>>,
    other: Perhaps<Self>,
}

#[test]
fn types_may_contain_themselves() {
    let path = Path {
        name: "a".to_owned(),
        parent: Perhaps::Yes(Box::new(Path {
            name: "b".to_owned(),
            parent: Perhaps::No,
        })),
    };
    assert_eq!(rendered(&path), "a%3ab%25253ano%253a");
    let chain = Chain {
        value: 1,
        next: Perhaps::No,
        other: Perhaps::No,
    };
    assert_eq!(rendered(&chain), "1%3ano%3ano");
}

/// With the name of what it wraps.
mod outer {
    use super::*;

    #[derive(KeyPart)]
    pub(super) struct Id<T>(pub(super) Tagged<T>)
    where
        T: Debug;

    #[derive(KeyPart)]
    pub(super) struct Alone<T>(pub(super) super::Alone<T>);
}

#[test]
fn a_wrapper_may_have_the_name_of_what_it_wraps() {
    assert_eq!(rendered(&outer::Alone(Alone(1))), "1");
    let tagged = Tagged {
        tag: 1,
        twice: 2,
        value: Box::new(3),
    };
    assert_eq!(rendered(&outer::Id(tagged)), "1%3a2%3a3");
}
