//! The grammar of key templates, by example and by property.

use proptest::prelude::*;

use super::*;

fn pieces(text: &str) -> Vec<Piece> {
    let template = parse(text);
    assert_eq!(template.faults, [], "{text}");
    template.pieces
}

/// The underlined part and the message of the only fault.
fn fault(text: &str) -> (String, String) {
    let template = parse(text);
    let [(range, fault)] = template.faults.as_slice() else {
        panic!("{text:?} has {:?}", template.faults);
    };
    (text[range.clone()].to_owned(), fault.to_string())
}

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn slot(range: Range<usize>, root: &str, path: Vec<Access>) -> Piece {
    Piece::Slot(Slot {
        range,
        root: root.to_owned(),
        path,
    })
}

#[test]
fn text_and_slots() {
    assert_eq!(pieces("jobs"), [text("jobs")]);
    assert_eq!(
        pieces("order:<id>"),
        [text("order:"), slot(7..9, "id", vec![])]
    );
    assert_eq!(
        pieces("<a>/<b>!"),
        [
            slot(1..2, "a", vec![]),
            text("/"),
            slot(5..6, "b", vec![]),
            text("!"),
        ]
    );
    assert_eq!(pieces("<r#type>"), [slot(1..7, "type", vec![])]);
    assert_eq!(pieces("<日本>"), [slot(1..7, "日本", vec![])]);
}

#[test]
fn paths() {
    assert_eq!(
        pieces("<self.user.0.name()>"),
        [slot(
            1..19,
            "self",
            vec![
                Access::Field("user".into()),
                Access::Index(0),
                Access::Method("name".into()),
            ]
        )]
    );
}

#[test]
fn literal_brackets() {
    assert_eq!(pieces("a<<b>>c"), [text("a<b>c")]);
    assert_eq!(
        pieces("<<<id>>>"),
        [text("<"), slot(3..5, "id", vec![]), text(">")]
    );
}

#[test]
fn one_fault_per_mistake() {
    for (template, underlined, message) in [
        ("", "", "empty"),
        ("  ", "  ", "only white space"),
        (" a", " ", "white space at its ends"),
        ("a\n", "\n", "white space at its ends"),
        ("a\tb", "\t", "control character `\\t`"),
        ("order:<id", "<id", "unclosed `<`"),
        ("order:<id/x", "<id", "close the placeholder: `<id>`"),
        ("a < b", "<", "close the placeholder: `<id>`"),
        ("<id:<other>", "<id", "unclosed `<`"),
        ("order:id>", ">", "stray `>`"),
        ("order:<>", "<>", "empty placeholder"),
        ("order:< >", "< >", "empty placeholder"),
        ("order:<_>", "<_>", "name it `_name`"),
        ("order:< id >", "< id >", "write `<id>`"),
        ("order:<id[0]>", "<id[0]>", "cannot stand in a placeholder"),
        ("order:<id.get(1)>", "<id.get(1)>", "cannot stand"),
        ("order:<id.>", "<id.>", "cannot stand"),
        ("order:<id.00>", "<id.00>", "cannot stand"),
        ("order:<7>", "<7>", "cannot stand"),
        ("<a><b>", "<a><b>", "could run together"),
        ("<a>-<b>", "<a>-<b>", "could run together"),
        ("<a>%<b>", "<a>%<b>", "could run together"),
        ("<a>é<b>", "<a>é<b>", "could run together"),
        ("order:{id}", "{id}", "write `<id>`"),
        ("order:{<id>}", "{", "remove other braces"),
        ("order:}", "}", "remove other braces"),
        ("<a>{:}<b>", "{", "remove other braces"),
        ("<a>\t<b>", "\t", "control character `\\t`"),
    ] {
        let (at, said) = fault(template);
        assert_eq!(at, underlined, "{template:?}");
        assert!(said.contains(message), "{template:?}: {said}");
    }
    assert!(fault(&"x".repeat(257)).1.contains("257 bytes"));
    assert_eq!(pieces(&"x".repeat(256)).len(), 1);
}

#[test]
fn all_mistakes_are_found() {
    let template = parse("<>:{x}:<a><b>:>:<id");
    assert_eq!(template.faults.len(), 5, "{:?}", template.faults);
}

/// What the macro lets through and the runtime refuses would fail in every call; and were the macro
/// to take for a delimiter what occurs in values, different calls would share a lock.
#[test]
fn the_runtime_draws_the_same_line() {
    use dlock_runtime::{KeyFault, LockError, LockKey};

    for char in ('\0'..='\x7f').chain(['\u{80}', 'é', '日']) {
        let written = match char {
            '<' | '>' => char.to_string().repeat(2),
            _ => char.to_string(),
        };
        let faults = parse(&format!("<a>{written}<b>")).faults;
        let key = LockKey::builder().part(&1).text(&char.to_string()).part(&2);
        let key = key.finish();
        assert_eq!(faults.is_empty(), key.is_ok(), "{char:?}: {key:?}");

        let undelimited = matches!(
            key,
            Err(LockError::InvalidKey {
                reason: KeyFault::Undelimited,
                ..
            })
        );
        let run_together = faults
            .iter()
            .any(|(_, fault)| fault.to_string().contains("run together"));
        assert_eq!(run_together, undelimited, "{char:?}: {key:?}");
    }
}

#[test]
fn reserved_characters_part_values() {
    for char in (' '..='~').filter(|c| !c.is_ascii_alphanumeric()) {
        let between = match char {
            '<' | '>' => char.to_string().repeat(2),
            '{' | '}' => continue,
            _ => char.to_string(),
        };
        let faults = parse(&format!("<a>{between}<b>")).faults.len();
        assert_eq!(faults, usize::from("-_.~%".contains(char)), "{char}");
    }
}

proptest! {
    #[test]
    fn any_text(text in "\\PC{0,40}|[<>{}a-c._:()\\t ]{0,24}") {
        let template = parse(&text);
        for (range, _) in &template.faults {
            prop_assert!(text.get(range.clone()).is_some());
        }
        for piece in &template.pieces {
            if let Piece::Slot(slot) = piece {
                let inside = text.get(slot.range.clone());
                prop_assert!(inside.is_some_and(|inside| inside.contains(&slot.root)));
            }
        }
    }

    #[test]
    fn escaped_text_comes_back(text in "[a-z<>:]{1,20}") {
        let escaped = text.replace('<', "<<").replace('>', ">>");
        prop_assert_eq!(pieces(&escaped), [Piece::Text(text)]);
    }

    #[test]
    fn fixed_text_and_slots_come_back(names in proptest::collection::vec("[a-z][a-z_]{0,6}", 1..5)) {
        let text = names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(":");
        let roots: Vec<String> = pieces(&text)
            .into_iter()
            .filter_map(|piece| match piece {
                Piece::Slot(slot) => Some(slot.root),
                Piece::Text(_) => None,
            })
            .collect();
        prop_assert_eq!(roots, names);
    }
}
