//! Adds a line about the lock to the function's documentation.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::{Attribute, Expr, Lit, Meta, Visibility};

use crate::duration::Role;
use crate::plan::{Key, Length, Mode, Patience, Permits, Plan, Setting};
use crate::target::Target;

/// Returns the function's attributes, with the line after the user's documentation.
pub(crate) fn attributes(plan: &Plan, target: &Target) -> TokenStream {
    let attrs = &target.attrs;
    let site = Span::mixed_site();
    let last = attrs.iter().rposition(|attr| text(attr).is_some());
    let is_hidden = attrs.iter().any(is_hidden);
    let line = line(plan);
    match last {
        Some(last) if !is_hidden => {
            let (before, after) = attrs.split_at(last + 1);
            // The same indentation as the text above. A different one would count as an indented block.
            let indent = match attrs.iter().find_map(text) {
                Some(first) if first.starts_with(' ') => " ",
                _ => "",
            };
            let line = format!("{indent}{line}");
            let doc = quote_spanned!(site=> #[doc = ""] #[doc = #line]);
            quote_spanned!(site=> #(#before)* #doc #(#after)*)
        }
        // Only when documentation is built: elsewhere the line would hide that the user's documentation is
        // missing. A function without `pub` may inherit documentation from a trait.
        None if !is_hidden && !matches!(target.vis, Visibility::Inherited) => {
            quote_spanned!(site=> #[cfg_attr(doc, doc = #line)] #(#attrs)*)
        }
        _ => quote_spanned!(site=> #(#attrs)*),
    }
}

/// Returns the line: ``Holds the lock `order:<id>` while it runs; ttl 30s, wait 5s.``
fn line(plan: &Plan) -> String {
    let locks: Vec<_> = plan.keys.iter().map(lock).collect();
    let locks = match locks.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("locks {} and {last}", most.join(", ")),
        one => format!("lock {}", one.concat()),
    };
    let mut line = format!("Holds the {locks} while it runs");
    if plan.enabled.is_some() {
        line.push_str(", unless `enabled` is false");
    }
    for (index, option) in plan.settings.iter().filter_map(option).enumerate() {
        line.push_str(if index == 0 { "; " } else { ", " });
        line.push_str(&option);
    }
    line.push('.');
    line
}

fn lock(key: &Key) -> String {
    let code = code(&key.template);
    if key.shared {
        format!("{code} (shared)")
    } else {
        code
    }
}

fn code(template: &str) -> String {
    if template.contains('`') {
        format!("`` {template} ``")
    } else {
        format!("`{template}`")
    }
}

/// Returns an option that callers need to know, if the attribute contains its value.
fn option(setting: &Setting) -> Option<String> {
    let fixed = |role: Role, length| {
        let length = humantime::format_duration(length);
        Some(format!("`{}` {length}", role.name()))
    };
    match setting {
        Setting::Length(role, Length::Fixed(length)) => fixed(*role, *length),
        Setting::Wait(Patience::For(limit)) => fixed(Role::Wait, *limit),
        Setting::Wait(Patience::Never) => Some("`wait` never".to_owned()),
        Setting::Wait(Patience::Forever) => Some("`wait` forever".to_owned()),
        Setting::Mode(Mode::Shared) => Some("`mode` shared".to_owned()),
        Setting::Permits(Permits::Fixed(most)) => Some(format!("`permits` {most}")),
        _ => None,
    }
}

/// Returns the text of a documentation line, or `None` for `include_str!` and the like.
fn text(attr: &Attribute) -> Option<String> {
    let Meta::NameValue(doc) = &attr.meta else {
        return None;
    };
    let literal = match &doc.value {
        Expr::Lit(literal) => Some(&literal.lit),
        _ => None,
    };
    doc.path.is_ident("doc").then(|| match literal {
        Some(Lit::Str(text)) => text.value(),
        _ => String::new(),
    })
}

fn is_hidden(attr: &Attribute) -> bool {
    let is_doc = attr.path().is_ident("doc");
    is_doc && matches!(&attr.meta, Meta::List(list) if list.tokens.to_string() == "hidden")
}
