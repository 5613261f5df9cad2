//! Tests that an overlay names the template's names, at the same bytes, and nothing else.

use proptest::prelude::*;

use super::*;

fn literal(source: &str) -> LitStr {
    syn::parse_str(source).expect("a literal")
}

#[test]
fn names_are_shown_where_they_stand() {
    let shown = |source: &str, name: Range<usize>| {
        over(&literal(source), &[name]).map(|format| format.to_string())
    };
    assert_eq!(
        shown("\"order:<id>\"", 7..9).as_deref(),
        Some("r\"_____{id}\"")
    );
    assert_eq!(
        shown("r#\"é<shop.id>\"#", 3..7).as_deref(),
        Some("r#\"__{shop}___\"#")
    );
    // No room for the longer beginning, a name in escapes, and a name that a format string cannot contain.
    assert_eq!(shown("\"<id>\"", 1..3), None);
    assert_eq!(shown("\"order:<\\x69d>\"", 7..9), None);
    assert_eq!(shown("\"order:<r#type>\"", 7..13), None);
}

proptest! {
    #[test]
    fn only_names_are_shown(
        pieces in proptest::collection::vec(
            ("([a-z:é日]|\\\\t|\\\\u\\{e9\\}|\\\\x41){0,3}:", "[a-z]{1,5}|é_日|self|fn|r#fn"),
            1..5,
        ),
        hashes in 0_usize..3,
        raw in any::<bool>(),
    ) {
        let inside: String = pieces
            .iter()
            .flat_map(|(text, name)| [text, "<", name, ">"])
            .collect();
        let source = if raw {
            format!("r{0}\"{inside}\"{0}", "#".repeat(hashes))
        } else {
            format!("\"{inside}\"")
        };
        let literal = literal(&source);
        let value = literal.value();
        let names: Vec<_> = value
            .match_indices('<')
            .zip(value.match_indices('>'))
            .map(|((open, _), (close, _))| open + 1..close)
            .collect();
        // A backslash is a character of the value in a raw literal, and an escape in another literal.
        prop_assert_eq!(names.len(), pieces.len());

        let mut left = source.clone();
        let overlay = over(&literal, &names).map(|format| format.to_string());
        let overlay = overlay.unwrap_or_default();
        for (_, name) in pieces {
            let at = left.find(&format!("<{name}>")).expect("it was written");
            left.replace_range(at..=at, "_");
            let is_name = name != "r#fn" && syn::parse_str::<Ident>(&name).is_ok();
            let shown = overlay.get(at..at + name.len() + 2) == Some(&*format!("{{{name}}}"));
            prop_assert_eq!(shown, is_name, "{} in {}", name, overlay);
        }
        prop_assert!(overlay.is_empty() || overlay.len() == source.len());
    }
}
