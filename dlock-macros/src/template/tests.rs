//! Tests the grammar of key templates with examples and properties.

use proptest::prelude::*;

use super::*;

fn pieces(text: &str) -> Vec<Piece> {
    let template = parse(text);
    assert_eq!(template.faults, [], "{text}");
    template.pieces
}

/// Returns the underlined part and the message of the only fault.
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
    let name = match path.as_slice() {
        [] => range.end - root.len()..range.end,
        _ => range.start..range.start + root.len(),
    };
    Piece::Slot(Slot {
        name,
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
    let raw = Slot {
        range: 1..9,
        name: 1..7,
        root: "type".into(),
        path: vec![Access::Index(0)],
    };
    assert_eq!(pieces("<r#type.0>"), [Piece::Slot(raw)]);
    assert_eq!(pieces("<日本>"), [slot(1..7, "日本", vec![])]);
    assert_eq!(pieces("<उद्यम>"), [slot(1..16, "उद्यम", vec![])]);
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
        ("  ", "  ", "contains only white space"),
        (" a", " ", "white space at its start or end"),
        ("a\n", "\n", "white space at its start or end"),
        ("a\tb", "\t", "control character `\\t`"),
        ("order:<id", "<id", "unclosed `<`"),
        ("order:<id/x", "<id", "close the placeholder: `<id>`"),
        ("a < b", "<", "close the placeholder: `<id>`"),
        ("<id:<other>", "<id", "unclosed `<`"),
        ("order:id>", ">", "unmatched `>`"),
        ("order:<>", "<>", "empty placeholder"),
        ("order:< >", "< >", "empty placeholder"),
        ("order:<_>", "<_>", "name it `_name`"),
        ("order:< id >", "< id >", "write `<id>`"),
        ("order:<id[0]>", "<id[0]>", "is not a valid placeholder"),
        (
            "order:<id.get(1)>",
            "<id.get(1)>",
            "not a valid placeholder",
        ),
        ("order:<id.>", "<id.>", "not a valid placeholder"),
        ("order:<id.00>", "<id.00>", "not a valid placeholder"),
        ("order:<7>", "<7>", "not a valid placeholder"),
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

/// A piece of a template before it is written.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Slot {
        raw: bool,
        root: String,
        path: Vec<Access>,
    },
}

impl Part {
    fn write(&self, out: &mut String) -> Piece {
        match self {
            Self::Text(text) => {
                *out += &text.replace('<', "<<").replace('>', ">>");
                Piece::Text(text.clone())
            }
            Self::Slot { raw, root, path } => {
                let start = out.len() + 1;
                *out += if *raw { "<r#" } else { "<" };
                *out += root;
                let name = start..out.len();
                for access in path {
                    let (name, call) = match access {
                        Access::Field(name) => (name.clone(), ""),
                        Access::Index(index) => (index.to_string(), ""),
                        Access::Method(name) => (name.clone(), "()"),
                    };
                    out.extend([".", &*name, call]);
                }
                let (root, path) = (root.clone(), path.clone());
                let range = start..out.len();
                *out += ">";
                Piece::Slot(Slot {
                    range,
                    name,
                    root,
                    path,
                })
            }
        }
    }
}

fn names() -> impl Strategy<Value = String> {
    "[a-zé日][a-z0-9_é日]{0,5}|_[a-z0-9]{1,4}"
}

fn slots() -> impl Strategy<Value = Part> {
    let access = prop_oneof![
        names().prop_map(Access::Field),
        any::<u32>().prop_map(Access::Index),
        names().prop_map(Access::Method),
    ];
    let path = proptest::collection::vec(access, 0..4);
    (any::<bool>(), names(), path).prop_map(|(raw, root, path)| Part::Slot { raw, root, path })
}

/// Text, placeholders with a delimiter somewhere between them, and text.
fn parts() -> impl Strategy<Value = Vec<Part>> {
    let between = "[a-z<>é日 .-]{0,4}[:/<>#, ][a-z<>é日 .-]{0,4}".prop_map(Part::Text);
    let end = || "([a-z<>é日:]{1,6})?".prop_map(Part::Text);
    let more = proptest::collection::vec((between, slots()), 0..4);
    (end(), slots(), more, end()).prop_map(|(before, first, more, after)| {
        let more = more.into_iter().flat_map(|(text, slot)| [text, slot]);
        let all = [before, first].into_iter().chain(more).chain([after]);
        let is_empty = |part: &Part| matches!(part, Part::Text(text) if text.is_empty());
        all.filter(|part| !is_empty(part)).collect()
    })
}

/// Any text, and texts similar to templates.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[<>{}a-c._:()\\t r#é日0]{0,24}",
        "(<|>|<<|>>|\\{|\\}|<a>|<r#é.0>|:|-|\n| ){0,12}",
    ]
}

proptest! {
    #[test]
    fn what_is_found_lies_in_the_text(text in texts()) {
        let template = parse(&text);
        for (range, _) in &template.faults {
            prop_assert!(text.get(range.clone()).is_some(), "{:?}", range);
        }
        for piece in &template.pieces {
            if let Piece::Slot(slot) = piece {
                let name = text.get(slot.name.clone());
                prop_assert_eq!(name.map(|name| name.trim_start_matches("r#")), Some(&*slot.root));
                prop_assert!(slot.range.start == slot.name.start && slot.range.end >= slot.name.end);
                prop_assert_eq!(text.get(slot.range.end..=slot.range.end), Some(">"));
            }
        }
        prop_assert!(!template.pieces.is_empty() || !template.faults.is_empty());
    }

    #[test]
    fn what_is_written_is_read(parts in parts()) {
        let mut text = String::new();
        let written: Vec<Piece> = parts.iter().map(|part| part.write(&mut text)).collect();
        prop_assert_eq!(pieces(&text), written, "{}", text);
    }
}
