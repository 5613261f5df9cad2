//! Where names come from: paths, macros, modules that hide everything, deprecated items.

use std::marker::PhantomData;

use dlock::KeyPart;

use crate::key_parts::rendered;

/// Where another crate re-exports this one.
mod vendored {
    pub(super) use ::dlock;
}

#[derive(KeyPart)]
#[key_part(crate = vendored::dlock)]
struct Vendored {
    id: u64,
    shop: u32,
}

#[derive(KeyPart)]
#[key_part(crate = self::vendored::dlock, rename_all = "UPPERCASE")]
enum Colour {
    Red,
}

/// Names that the expansion must not see.
#[expect(dead_code)]
mod shadowed {
    #![no_implicit_prelude]

    mod core {}
    mod std {}
    mod dlock {}
    struct String;
    struct PartWriter;
    trait KeyPart {
        fn write_part(&self, out: u8);
        fn push_part(&self);
        fn push_str(&self);
    }
    impl<T> KeyPart for T {
        fn write_part(&self, _out: u8) {}
        fn push_part(&self) {}
        fn push_str(&self) {}
    }
    #[derive(::dlock::KeyPart)]
    pub(super) struct Parts<'a> {
        pub(super) out: &'a str,
        pub(super) own: u8,
        pub(super) r#type: u8,
    }

    #[derive(::dlock::KeyPart)]
    pub(super) enum Names {
        Some,
        None,
        Ok,
        KeyPart,
    }
}

#[test]
fn another_path_to_the_crate() {
    assert_eq!(rendered(&Vendored { id: 1, shop: 2 }), "1%3a2");
    assert_eq!(rendered(&Colour::Red), "RED");
}

#[test]
fn nothing_is_taken_from_the_scope() {
    let parts = shadowed::Parts {
        out: "a",
        own: 1,
        r#type: 2,
    };
    assert_eq!(rendered(&parts), "a%3a1%3a2");
    assert_eq!(rendered(&shadowed::Names::KeyPart), "KeyPart");
}

macro_rules! newtype {
    ($name:ident($ty:ty)) => {
        #[derive(KeyPart)]
        struct $name($ty);
    };
}

macro_rules! record {
    ($name:ident<$param:ident> { $($field:ident: $ty:ty),* } at $krate:path) => {
        #[derive(KeyPart)]
        #[key_part(crate = $krate)]
        struct $name<$param> {
            fixed: u8,
            $($field: $ty,)*
            left_out: PhantomData<$param>,
        }
    };
}

macro_rules! variants {
    ($name:ident: $case:literal { $($variant:ident = $text:expr),* }) => {
        #[derive(KeyPart)]
        #[key_part(rename_all = $case)]
        enum $name {
            Fixed,
            $(#[key_part(rename = $text)] $variant,)*
        }
    };
}

macro_rules! phantom {
    ($name:ident, $ty:ty) => {
        #[derive(KeyPart)]
        struct $name<T>(u8, $ty);
    };
}

newtype!(Plain(&'static str));
record!(Row<T> { id: u64, value: Box<T> } at ::dlock);
variants!(Kind: "snake_case" { Other = "another" });
phantom!(Marked, PhantomData<T>);

#[test]
fn types_made_by_macros() {
    assert_eq!(rendered(&Plain("a")), "a");
    let row = Row {
        fixed: 1,
        id: 2,
        value: Box::new('x'),
        left_out: PhantomData,
    };
    assert_eq!(rendered(&row), "1%3a2%3ax");
    assert_eq!(rendered(&Kind::Fixed), "fixed");
    assert_eq!(rendered(&Kind::Other), "another");
    assert_eq!(rendered(&Marked::<String>(1, PhantomData)), "1");
}

#[deprecated]
#[derive(KeyPart)]
struct Old(u64);

#[derive(KeyPart)]
enum Version {
    #[deprecated]
    Old,
    New,
}

#[derive(KeyPart)]
#[expect(deprecated)]
struct Both {
    old: Old,
    #[deprecated]
    older: u8,
    new: u64,
}

#[test]
fn what_is_deprecated_is_no_warning() {
    #![expect(deprecated)]
    let both = Both {
        old: Old(1),
        older: 2,
        new: 3,
    };
    assert_eq!(rendered(&both), "1%3a2%3a3");
    assert_eq!(rendered(&Version::Old), "Old");
    assert_eq!(rendered(&Version::New), "New");
}
