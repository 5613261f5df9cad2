//! Tests texts that count as placeholders, and texts that do not.

use proc_macro2::{Span, TokenStream};

use super::*;
use crate::message::Faults;
use crate::template;

const ITEM: &str =
    "async fn pay(&self, order: OrderId, id: u64, name: &str, db: &Db, list: Vec<u8>,
    report: Report,
    Path(shop): Path<u8>) -> R { }";

/// Returns the messages about `text`, as the key of [`ITEM`].
fn messages(text: &str) -> Vec<String> {
    let item: TokenStream = ITEM.parse().expect("tokens");
    let target = target::parse(item, &mut Faults::default()).expect("a function");
    let template = template::parse(text);
    assert!(template.faults.is_empty(), "{text}: {:?}", template.faults);
    let roots = template.pieces.iter().filter_map(|piece| match piece {
        Piece::Slot(slot) => Some(slot.root.clone()),
        Piece::Text(_) => None,
    });
    let used: Vec<_> = roots.collect();
    let literal = LitStr::new(text, Span::call_site());
    let faults = faults(&template, &literal, &used, &target);
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn what_another_notation_means_by_a_parameter_is_refused() {
    for (text, found, value, quoted) in [
        ("order:id", "id", "id", "<'id'>"),
        ("id", "id", "id", "<'id'>"),
        ("orders/name/lines", "name", "name", "<'name'>"),
        ("pay:order.id", "order.id", "order.id", "<'order'>.id"),
        ("pay:self.id()", "self.id()", "self.id()", "<'self'>.id()"),
        ("shop:shop", "shop", "shop", "<'shop'>"),
        ("order:$id", "$id", "id", "$<'id'>"),
        ("order-$id", "$id", "id", "$<'id'>"),
        ("order:#id", "#id", "id", "#<'id'>"),
        ("order:@id", "@id", "id", "@<'id'>"),
        ("/order/:id", ":id", "id", ":<'id'>"),
        ("order:%id%", "%id%", "id", "%<'id'>%"),
        ("order:[id]", "[id]", "id", "[<'id'>]"),
        ("order:(id)", "(id)", "id", "(<'id'>)"),
        ("order:<<id>>", "<<id>>", "id", "<<<'id'>>>"),
        ("pay:<order>:<<id>>", "<<id>>", "id", "<<<'id'>>>"),
        (
            "pay:<order>/$db.pool",
            "$db.pool",
            "db.pool",
            "$<'db'>.pool",
        ),
    ] {
        let messages = messages(text);
        let [message] = messages.as_slice() else {
            panic!("{text}: {messages:?}");
        };
        assert!(
            message.starts_with(&format!("`{found}` in the lock key")),
            "{text}: {message}"
        );
        let help =
            format!("to use the value, write `<{value}>`; to keep the text, write `{quoted}`");
        assert!(message.contains(&help), "{text}: {message}");
    }
    assert_eq!(messages("$id:$name").len(), 2);
}

#[test]
fn the_help_is_a_key_that_nothing_is_said_of() {
    for text in [
        "order:<'id'>",
        "<'id'>",
        "orders/<'name'>/lines",
        "pay:<'order'>.id",
        "order:$<'id'>",
        "/order/:<'id'>",
        "order:%<'id'>%",
        "order:[<'id'>]",
        "order:<<<'id'>>>",
        "order:<id>",
        "pay:<order>:<id>",
    ] {
        assert_eq!(messages(text), [""; 0], "{text}");
    }
}

#[test]
fn what_may_well_be_meant_is_left_alone() {
    for text in [
        // The first word says what is locked.
        "order:all",
        "name/list",
        "id-cards",
        // Not a whole segment.
        "sync-id",
        "order:by-id",
        "order:id.old.",
        "order:ids",
        "order:Id",
        // Not a value that identifies something.
        "migrate:db",
        "sort:list",
        "report",
        "send:report",
        "jobs:self",
        // Beside a placeholder, or a placeholder itself.
        "order:<id>",
        "order:<id>:name",
        "id:<id>",
        "order:<order.id>:id",
        "user@name:<id>",
        "a#id:<order>",
        "order:<id>:::",
        "50%:<id>",
    ] {
        assert_eq!(messages(text), [""; 0], "{text}");
    }
}
