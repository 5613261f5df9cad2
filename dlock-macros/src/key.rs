//! The key's placeholders, looked up among the function's parameters.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote_spanned;
use syn::{Expr, ExprLit, Lit, LitStr};

use crate::literal;
use crate::message::{Fault, Faults};
use crate::params::Param;
use crate::plan::{Key, KeyPiece};
use crate::suggest;
use crate::target::{self, Target};
use crate::template::{self, Access, Piece, Slot};

/// The key of a plan, and which parameters it uses.
pub(crate) struct Resolved {
    pub(crate) key: Key,
    pub(crate) used: Vec<String>,
}

/// Reads the template; every mistake in it is reported.
pub(crate) fn resolve(value: &Expr, target: &Target, faults: &mut Faults) -> Option<Resolved> {
    let literal = faults.keep(template_literal(value))?;
    let text = literal.value();
    let template = template::parse(&text);
    let mut found: Vec<_> = template
        .faults
        .into_iter()
        .map(|(range, fault)| (range.start, literal::report(&literal, range, fault)))
        .collect();

    let mut used = Vec::new();
    let mut pieces = Vec::new();
    for piece in template.pieces {
        pieces.push(match piece {
            Piece::Text(text) => KeyPiece::Text(text),
            Piece::Slot(slot) => {
                used.push(slot.root.clone());
                let place = literal::place(&literal, slot.range.clone());
                match part(&slot, place, &literal, target) {
                    Ok(part) => KeyPiece::Part(part, place),
                    Err(error) => {
                        found.push((slot.range.start, error));
                        continue;
                    }
                }
            }
        });
    }
    found.sort_by_key(|(start, _)| *start);
    for (_, error) in found {
        faults.push(error);
    }
    Some(Resolved {
        key: Key {
            template: text,
            pieces,
        },
        used,
    })
}

fn template_literal(value: &Expr) -> syn::Result<LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(literal),
            ..
        }) if literal.suffix().is_empty() => Ok(literal.clone()),
        Expr::Array(_) => Err(Fault::new("the key must be a string literal")
            .help("give one template, for example `key = \"order:<id>\"`")
            .over(value)),
        _ => Err(Fault::new("the key must be a string literal")
            .help("write the template here, for example `key = \"order:<id>\"`: its placeholders are checked during compilation")
            .over(value)),
    }
}

/// The expression that a placeholder stands for.
fn part(slot: &Slot, place: Span, literal: &LitStr, target: &Target) -> syn::Result<TokenStream> {
    let Some(param) = target.params.iter().find(|param| param.name() == slot.root) else {
        let root = slot.range.start..slot.range.start + slot.root.len();
        let range = if slot.path.is_empty() {
            slot.range.clone()
        } else {
            root
        };
        return Err(literal::report(
            literal,
            range,
            unknown_name(&slot.root, target),
        ));
    };
    // The parameter's own hygiene, shown where the literal is.
    let mut root = param.ident.clone();
    root.set_span(root.span().located_at(place));
    let mut expr = quote_spanned!(place=> #root);
    for access in &slot.path {
        expr = match access {
            Access::Index(index) => {
                let mut index = Literal::u32_unsuffixed(*index);
                index.set_span(place);
                quote_spanned!(place=> #expr.#index)
            }
            Access::Field(name) => {
                let field = member(name, place, slot, literal)?;
                quote_spanned!(place=> #expr.#field)
            }
            Access::Method(name) => {
                let method = member(name, place, slot, literal)?;
                quote_spanned!(place=> #expr.#method())
            }
        };
    }
    Ok(expr)
}

/// A field or method name, which may be a keyword with its `r#` left out.
fn member(name: &str, place: Span, slot: &Slot, literal: &LitStr) -> syn::Result<Ident> {
    let parsed = syn::parse_str::<Ident>(name)
        .or_else(|_| syn::parse_str::<Ident>(&format!("r#{name}")))
        .ok()
        .filter(|_| name != "await");
    match parsed {
        Some(mut ident) => {
            ident.set_span(place);
            Ok(ident)
        }
        None => Err(literal::report(
            literal,
            slot.range.clone(),
            Fault::new(format!("`{name}` is not the name of a field or method")).help(
                "a placeholder is a parameter followed by any of `.field`, `.0` and `.method()`",
            ),
        )),
    }
}

fn unknown_name(name: &str, target: &Target) -> Fault {
    if target.hidden_names().iter().any(|hidden| hidden == name) {
        return Fault::new(format!(
            "`{name}` is bound inside a pattern that `#[async_trait]` hides from the key"
        ))
        .help("take the argument by name and destructure it in the body");
    }
    let function = &target.sig.ident;
    if name == "self" {
        return Fault::new(format!("`{function}` has no `self`"))
            .help("give it a receiver such as `&self`, or name a parameter");
    }
    let names: Vec<String> = target
        .params
        .iter()
        .map(Param::name)
        .filter(|name| !target::is_hidden_argument(name))
        .collect();
    let fault = Fault::new(format!("no parameter named `{name}` in `{function}`"));
    let fault = match suggest::closest(name, names.iter().map(String::as_str)) {
        Some(near) => fault.help(format!("a parameter with a similar name exists: `{near}`")),
        None => fault,
    };
    fault.note(match names.as_slice() {
        [] => format!("`{function}` has no named parameters"),
        [one] => format!("the only parameter is `{one}`"),
        several => format!(
            "the parameters are {}",
            suggest::list(several.iter().map(String::as_str))
        ),
    })
}
