//! Tests the messages of all cases of `tests/ui` without a compiler: texts, helps and notes, in the order of the source.
//!
//! There the whole output of rustc is compared, which takes a minute. Here each case takes a moment.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, ImplItem, Item, Meta, TraitItem};

use super::run;
use crate::key_part;

/// The cases that another macro or the configuration changes first, and those in which rustc alone has something to say.
const OF_RUSTC: [&str; 11] = [
    "argument_is_removed",
    "argument_is_unused",
    "attribute_is_a_string",
    "below_tokio_main",
    "name_hidden_by_async_trait",
    "on_cancel_not_send",
    "option_hidden_by_async_trait",
    "rc_in_a_spawned_task",
    "result_in_a_spawned_task",
    "second_attribute_by_another_name",
    "unknown_name_from_concat",
];

/// Expands whatever has an attribute of ours, and collects the messages.
#[derive(Default)]
struct Expander {
    told: Vec<String>,
}

impl Expander {
    /// Takes the attribute from the item and expands it.
    fn expand<T: ToTokens>(
        &mut self,
        item: &mut T,
        attributes: fn(&mut T) -> Option<&mut Vec<Attribute>>,
    ) {
        let Some(all) = attributes(item) else {
            return;
        };
        let is_lock = |it: &Attribute| {
            let last = it.path().segments.last();
            last.is_some_and(|it| it.ident == "distributed_lock")
        };
        let derives = all.iter().any(|it| {
            it.path().is_ident("derive") && it.to_token_stream().to_string().contains("KeyPart")
        });
        if let Some(place) = all.iter().position(is_lock) {
            let attribute = all.remove(place);
            let arguments = match attribute.meta {
                Meta::List(list) => list.tokens,
                Meta::NameValue(_) | Meta::Path(_) => TokenStream::new(),
            };
            let made = run(arguments, item.to_token_stream());
            self.collect(made);
        } else if derives {
            let others: Vec<_> = all
                .drain(..)
                .filter(|it| !it.path().is_ident("derive"))
                .collect();
            all.extend(others);
            let made = key_part::run(item.to_token_stream());
            self.collect(made);
        }
    }

    fn collect(&mut self, expansion: TokenStream) {
        let Ok(file) = syn::parse2::<syn::File>(expansion) else {
            return;
        };
        for item in file.items {
            let Item::Macro(made) = item else { continue };
            let last = made.mac.path.segments.last();
            if last.is_some_and(|it| it.ident == "compile_error") {
                let text = made.mac.parse_body::<syn::LitStr>();
                self.told.push(text.expect("it has a text").value());
            }
        }
    }
}

impl VisitMut for Expander {
    fn visit_item_mut(&mut self, item: &mut Item) {
        self.expand(item, |item| match item {
            Item::Const(it) => Some(&mut it.attrs),
            Item::Enum(it) => Some(&mut it.attrs),
            Item::Fn(it) => Some(&mut it.attrs),
            Item::ForeignMod(it) => Some(&mut it.attrs),
            Item::Impl(it) => Some(&mut it.attrs),
            Item::Mod(it) => Some(&mut it.attrs),
            Item::Struct(it) => Some(&mut it.attrs),
            Item::Trait(it) => Some(&mut it.attrs),
            Item::Type(it) => Some(&mut it.attrs),
            Item::Union(it) => Some(&mut it.attrs),
            _ => None,
        });
        visit_mut::visit_item_mut(self, item);
    }

    fn visit_impl_item_mut(&mut self, item: &mut ImplItem) {
        self.expand(item, |item| match item {
            ImplItem::Fn(it) => Some(&mut it.attrs),
            _ => None,
        });
        visit_mut::visit_impl_item_mut(self, item);
    }

    fn visit_trait_item_mut(&mut self, item: &mut TraitItem) {
        self.expand(item, |item| match item {
            TraitItem::Fn(it) => Some(&mut it.attrs),
            _ => None,
        });
        visit_mut::visit_trait_item_mut(self, item);
    }
}

/// The text of a mistake, its helps and its notes: a line each.
fn lines(message: &str) -> Vec<String> {
    let mut lines = message.lines().map(str::trim);
    let what = lines.next().unwrap_or_default().to_owned();
    let rest = lines.filter(|it| it.starts_with("help: ") || it.starts_with("note: "));
    [what].into_iter().chain(rest.map(str::to_owned)).collect()
}

/// The messages of ours among those that rustc has shown.
fn shown(output: &str) -> Vec<Vec<String>> {
    let messages = output.split("\n\n");
    // A sketch has an empty line around it.
    let mut whole: Vec<String> = Vec::new();
    for part in messages {
        match whole.last_mut() {
            Some(last) if part.starts_with(' ') => last.extend(["\n", part]),
            _ => whole.push(part.to_owned()),
        }
    }
    let ours = whole.iter().filter_map(|it| it.strip_prefix("error: "));
    let texts = ours.map(|it| it.split("\n --> ").next().unwrap_or_default());
    texts.map(lines).collect()
}

#[test]
fn each_case_is_told_what_is_wrong_and_what_to_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/ui");
    let (mut cases, mut compared, mut wrong) = (0, 0, Vec::new());
    for entry in fs::read_dir(&folder).expect("the cases are there") {
        let path = entry.expect("it can be read").path();
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        if path.extension().is_none_or(|it| it != "rs") || OF_RUSTC.contains(&name) {
            continue;
        }
        let source = fs::read_to_string(&path).expect("a text file");
        let output = fs::read_to_string(path.with_extension("stderr")).expect("a text file");
        cases += 1;
        let Ok(mut file) = syn::parse_file(&source) else {
            continue;
        };
        let mut expander = Expander::default();
        expander.visit_file_mut(&mut file);
        let reported: Vec<_> = expander.told.iter().map(|it| lines(it)).collect();
        let expected = shown(&output);
        compared += 1;
        if reported != expected {
            wrong.push(format!(
                "{name}\n  reported: {reported:?}\n  expected: {expected:?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {cases}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 200, "{compared} of {cases}");
}
