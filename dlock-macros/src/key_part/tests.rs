//! Tests the derive as a whole: its output for each kind of type, and that no input makes it panic.

use proptest::{prelude::*, sample::select};

use super::*;
use crate::mutants::{edited, edits, mutants};

const ITEMS: &[&str] = &[
    "#[derive(KeyPart)]
    #[key_part(crate = ::shop::dlock)]
    pub(crate) struct Order<'a, T: ?Sized, const N: usize = 3> where T: Clone {
        id: Id<T>,
        #[key_part(skip)]
        lines: Vec<u64>,
        shop: &'a str,
        kind: PhantomData<T>,
    }",
    "struct Sku<T>(#[serde(default)] pub T, #[key_part(skip)] u64) where T: Copy;",
    "#[key_part(rename_all = \"snake_case\", crate = dlock)]
    enum State { New = 1, #[key_part(rename = \"sent\")] InTransit, r#type {}, Tuple() }",
    "union Word { number: u32, #[key_part(skip)] bytes: [u8; 4] }",
    "enum Owner { Nobody, Person(#[key_part(skip)] u64), Team { id: u32 } }",
];

fn expanded(item: &str) -> String {
    run(item.parse().expect("tokens")).to_string()
}

fn errors(expansion: &str) -> usize {
    expansion.matches("compile_error").count()
}

fn body(item: &str) -> String {
    let expansion = expanded(item);
    let body = expansion.split_once("PartWriter < '_ >)");
    body.expect("an impl").1.trim().to_owned()
}

#[test]
fn one_field_is_the_value() {
    for item in [
        "struct Sku(String);",
        "struct Sku(String, PhantomData<u8>);",
    ] {
        assert_eq!(
            body(item),
            "{ :: dlock :: __private :: KeyPart :: write_part (& self . 0 , out) ; } }"
        );
    }
}

#[test]
fn several_fields_are_parts() {
    assert_eq!(
        body("struct Pair { a: u8, #[key_part(skip)] b: u8, r#type: u8 }"),
        "{ :: dlock :: __private :: push_part (& self . a , out) ; \
         :: dlock :: __private :: push_part (& self . r#type , out) ; } }"
    );
}

#[test]
fn variants_are_their_names() {
    assert_eq!(
        body(ITEMS[2]),
        "{ dlock :: __private :: PartWriter :: push_str (out , match self { \
         Self :: New { .. } => \"new\" , Self :: InTransit { .. } => \"sent\" , \
         Self :: r#type { .. } => \"type\" , Self :: Tuple { .. } => \"tuple\" , }) ; } }"
    );
}

#[test]
fn only_what_generics_decide_is_bound() {
    let clause = |item: &str| {
        let expansion = expanded(item);
        assert_eq!(errors(&expansion), 0, "{expansion}");
        let (_, clause) = expansion.split_once("where").expect("a clause");
        let (clause, _) = clause.split_once('{').expect("a body");
        clause
            .trim()
            .replace(" : :: dlock :: __private :: KeyPart", "")
    };
    for (item, expected) in [
        ("struct A(u8);", ""),
        ("struct A<T>(T);", "T ,"),
        ("struct A<T>(T, T, u8, Vec<T>);", "T , Vec < T > ,"),
        ("struct A<T>(u8, PhantomData<T>);", ""),
        ("struct A<T>(u8, #[key_part(skip)] T);", ""),
        (
            "struct A<T: B>(T::Id, <T as B>::Id);",
            "T :: Id , < T as B > :: Id ,",
        ),
        ("struct A<T>(fn(x: T), [T; 3]);", "fn (x : T) , [T ; 3] ,"),
        ("struct A<T>(b::T, &'static b::c::T);", ""),
        (
            "struct A<T>(T, Box<A<T>>, Box<Self>, b::A<T>);",
            "T , b :: A < T > ,",
        ),
        ("struct A<'a, const N: usize>(&'a [u8; N]);", ""),
        ("struct A<T>(T) where T: Copy;", "T : Copy , T ,"),
    ] {
        assert_eq!(clause(item), expected, "{item}");
    }
}

#[test]
fn mistakes_leave_an_impl_that_asks_for_nothing() {
    for (item, count) in [
        (ITEMS[3], 1),
        (ITEMS[4], 2),
        ("struct Nothing;", 1),
        ("enum Never {}", 1),
        ("struct A<T>(T, #[key_part(rename = \"b\")] u8);", 1),
        (
            "#[key_part(oops, crate = 3)] struct A<T>(#[key_part] T);",
            3,
        ),
    ] {
        let expansion = expanded(item);
        assert_eq!(errors(&expansion), count, "{expansion}");
        assert!(expansion.contains("{ let _ = out ; }"), "{expansion}");
        assert!(expansion.contains("where {"), "{expansion}");
    }
    assert_eq!(errors(&expanded("fn f() {}")), 1);
}

#[test]
fn no_mutation_panics() {
    for item in ITEMS {
        for mutant in mutants(&item.parse().expect("tokens")) {
            let text = mutant.to_string();
            let expansion = run(mutant);
            let file = syn::parse2::<syn::File>(expansion).expect("items");
            assert!(!file.items.is_empty(), "{text}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_item_panics(item in select(ITEMS), edits in edits()) {
        let item = edited(item.parse().expect("tokens"), &edits);
        let expansion = run(item).to_string();
        prop_assert!(errors(&expansion) > 0 || expansion.contains("impl"), "{}", expansion);
    }
}
