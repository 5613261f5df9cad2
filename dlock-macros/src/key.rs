//! The key's placeholders, looked up among the function's parameters.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote_spanned;
use syn::{Expr, ExprLit, Lit, LitStr};

use crate::literal;
use crate::message::{Fault, Faults};
use crate::overlay;
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
    let mut names = Vec::new();
    let mut pieces = Vec::new();
    for piece in template.pieces {
        pieces.push(match piece {
            Piece::Text(text) => KeyPiece::Text(text),
            Piece::Slot(mut slot) => {
                slot.root = composed(slot.root);
                used.push(slot.root.clone());
                let place = literal::place(&literal, slot.range.clone());
                let Some(param) = target.params.iter().find(|param| param.name() == slot.root)
                else {
                    if let Err(error) = unknown_name(&slot, &literal, target, faults) {
                        found.push((slot.range.start, error));
                    }
                    continue;
                };
                names.push(slot.name.clone());
                match part(&slot, param, place, &literal) {
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
    let names = overlay::over(&literal, &names);
    Some(Resolved {
        key: Key {
            template: text,
            pieces,
            names,
        },
        used,
    })
}

/// The parameters that a key names, whatever else is wrong with it.
pub(crate) fn named<'a>(value: &Expr, target: &'a Target) -> Vec<&'a Param> {
    let text = template_literal(value).map_or_else(|_| String::new(), |literal| literal.value());
    let mut names = Vec::new();
    for piece in template::parse(&text).pieces {
        if let Piece::Slot(slot) = piece {
            names.push(composed(slot.root));
        }
    }
    let params = target.params.iter();
    params
        .filter(|param| names.contains(&param.name()))
        .collect()
}

/// The name as compilers know it: letters and their accents, if written one after the other, as one.
fn composed(name: String) -> String {
    syn::parse_str::<Ident>(&name).map_or(name, |ident| ident.to_string())
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
fn part(slot: &Slot, param: &Param, place: Span, literal: &LitStr) -> syn::Result<TokenStream> {
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
    // A keyword since edition 2024, which is ours whatever the user's is.
    let is_young = name == "gen";
    let parsed = syn::parse_str::<Ident>(name)
        .ok()
        .filter(|_| !is_young)
        .or_else(|| syn::parse_str::<Ident>(&format!("r#{name}")).ok())
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

/// Reports a name that is none, or lets rustc do so if it can point at the very name.
fn unknown_name(
    slot: &Slot,
    literal: &LitStr,
    target: &Target,
    faults: &mut Faults,
) -> syn::Result<()> {
    let place = slot.name.clone();
    let fault = special_name(&slot.root, target);
    if fault.is_none()
        && literal::exact(literal, place.clone()).is_none()
        && let Some(near) = near_name(&slot.root, target)
        && near.ident != "self"
        && let Some(format) = overlay::over(literal, std::slice::from_ref(&place))
    {
        faults.leave_to_rustc(not_found(&format, near));
        return Ok(());
    }
    let fault = fault.unwrap_or_else(|| no_parameter(&slot.root, target));
    let range = if slot.path.is_empty() {
        slot.range.clone()
    } else {
        place
    };
    Err(literal::report(literal, range, fault))
}

/// Code in which rustc does not find what `format` names, and proposes `near` instead.
//
// In a module of its own: outside of one a constant of that name would be found, and the mistake
// go unseen. Without a near name rustc would propose to import such a constant, so that is not left
// to it.
fn not_found(format: &Literal, near: &Param) -> TokenStream {
    let mut name = near.ident.clone();
    name.set_span(name.span().resolved_at(format.span()));
    quote_spanned! {Span::mixed_site()=>
        const _: () = {
            mod __dlock_key {
                #![no_implicit_prelude]
                fn parameters() {
                    let #name = "";
                    let _ = ::core::format_args!(#format);
                }
            }
        };
    }
}

/// A name that cannot be a parameter's, or is hidden.
fn special_name(name: &str, target: &Target) -> Option<Fault> {
    if target.hidden_names().iter().any(|hidden| hidden == name) {
        return Some(
            Fault::new(format!(
                "`{name}` is bound inside a pattern that `#[async_trait]` hides from the key"
            ))
            .help("take the argument by name and destructure it in the body"),
        );
    }
    (name == "self").then(|| {
        Fault::new(format!("`{}` has no `self`", target.sig.ident))
            .help("give it a receiver such as `&self`, or name a parameter")
    })
}

fn no_parameter(name: &str, target: &Target) -> Fault {
    let function = &target.sig.ident;
    let fault = Fault::new(format!("no parameter named `{name}` in `{function}`"));
    let fault = match near_name(name, target) {
        Some(near) => fault.help(format!(
            "a parameter with a similar name exists: `{}`",
            near.name()
        )),
        None => fault,
    };
    let names: Vec<String> = nameable(target).map(Param::name).collect();
    fault.note(match names.as_slice() {
        [] => format!("`{function}` has no named parameters"),
        [one] => format!("the only parameter is `{one}`"),
        several => format!(
            "the parameters are {}",
            suggest::list(several.iter().map(String::as_str))
        ),
    })
}

/// The parameter that was surely meant by `name`.
fn near_name<'a>(name: &str, target: &'a Target) -> Option<&'a Param> {
    let names: Vec<String> = nameable(target).map(Param::name).collect();
    let near = suggest::closest(name, names.iter().map(String::as_str))?;
    nameable(target).find(|param| param.name() == near)
}

fn nameable(target: &Target) -> impl Iterator<Item = &Param> {
    let params = target.params.iter();
    params.filter(|param| !target::is_hidden_argument(&param.name()))
}
