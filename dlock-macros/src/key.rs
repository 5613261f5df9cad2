//! Resolves the keys' placeholders to the function's parameters.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Expr, ExprLit, Lit, LitStr, Meta};

use crate::args;
use crate::idents::composed;
use crate::literal;
use crate::message::{Fault, Faults};
use crate::modes::{self, Sharing};
use crate::overlay;
use crate::params::Param;
use crate::plan::{Key, KeyPiece, Removed};
use crate::silent;
use crate::suggest;
use crate::target::{self, Target};
use crate::template::{self, Access, Piece, Slot, Template};

/// The keys of a plan, and the parameters that they use.
#[derive(Default)]
pub(crate) struct Resolved {
    pub(crate) keys: Vec<Key>,
    pub(crate) used: Vec<String>,
    pub(crate) sharing: Sharing,
}

/// Reads one template, or a list of them, and reports every mistake.
pub(crate) fn resolve(value: &Expr, target: &Target, faults: &mut Faults) -> Resolved {
    let mut resolved = Resolved::default();
    let templates = match templates(value) {
        Ok(templates) => templates,
        Err(error) => {
            faults.push(error);
            return resolved;
        }
    };
    let is_list = matches!(value, Expr::Array(_));
    let count = templates.len();
    let mut seen = Vec::new();
    let mut read = Vec::new();
    for template in templates {
        let marked = modes::marked(&template, is_list);
        let element =
            marked.and_then(|(template, shared)| Ok((template_literal(template)?, shared)));
        let Some((literal, shared)) = faults.keep(element) else {
            continue;
        };
        let value = literal.value();
        if let Some((_, before)) = seen.iter().find(|(text, _)| *text == value) {
            // Its mistakes were reported at its first occurrence.
            faults.push(given_twice(&literal, *before == shared));
            continue;
        }
        let template = template::parse(&value);
        seen.push((value, shared));
        let is_right = template.faults.is_empty();
        let mut key = resolve_one(&literal, &template, target, &mut resolved.used, faults);
        key.shared = shared;
        resolved.keys.push(key);
        if is_right {
            read.push((literal, template));
        }
    }
    for (literal, template) in read {
        for error in silent::faults(&template, &literal, &resolved.used, target) {
            faults.push(error);
        }
    }
    let shared = resolved.keys.iter().filter(|key| key.shared).count();
    resolved.sharing = match shared {
        0 => Sharing::None,
        all if all == count => Sharing::All,
        _ => Sharing::Some,
    };
    resolved
}

/// Returns the elements of a list, or the only template.
fn templates(value: &Expr) -> syn::Result<Vec<Expr>> {
    match value {
        Expr::Array(list) if list.elems.is_empty() => Err(Fault::new("the list of keys is empty")
            .help("add at least one key: `key = [\"account:<from>\", \"account:<to>\"]`")
            .over(value)),
        Expr::Array(list) => Ok(list.elems.iter().cloned().map(args::peel).collect()),
        one => Ok(vec![one.clone()]),
    }
}

/// Different values may turn out to be equal, and their key then counts once. The same names are always
/// equal.
fn given_twice(literal: &LitStr, in_one_mode: bool) -> syn::Error {
    let text = literal.value();
    let fault = if in_one_mode {
        Fault::new(format!("duplicate key `{text}`"))
            .help("remove one of the two, or use another parameter in it")
    } else {
        Fault::new(format!("duplicate key `{text}` in another mode"))
            .help("remove one of the two: a call holds a key in one mode")
    };
    fault.at(literal.span())
}

fn resolve_one(
    literal: &LitStr,
    template: &Template,
    target: &Target,
    used: &mut Vec<String>,
    faults: &mut Faults,
) -> Key {
    let mut found: Vec<_> = template
        .faults
        .iter()
        .cloned()
        .map(|(range, fault)| (range.start, literal::report(literal, range, fault)))
        .collect();

    let mut names = Vec::new();
    let mut pieces = Vec::new();
    let is_slot = |piece: &&Piece| matches!(piece, Piece::Slot(_));
    let slots = template.pieces.iter().filter(is_slot).count();
    for piece in &template.pieces {
        pieces.push(match piece {
            Piece::Text(text) => KeyPiece::Text(text.clone()),
            Piece::Slot(slot) => {
                let mut slot = slot.clone();
                slot.root = composed(slot.root);
                used.push(slot.root.clone());
                let place = literal::place(literal, slot.range.clone());
                let Some(param) = target.params.iter().find(|param| param.name() == slot.root)
                else {
                    if let Err(error) = unknown_name(&slot, literal, target, faults) {
                        found.push((slot.range.start, error));
                    }
                    continue;
                };
                names.push(slot.name.clone());
                match part(&slot, slots > 1, param, place, literal) {
                    Ok(part) => KeyPiece::Part(part, place, removed(param, literal)),
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
    let names = overlay::over(literal, &names);
    Key {
        template: literal.value(),
        pieces,
        names,
        shared: false,
    }
}

/// Returns the parameters that the keys name, even if the keys have other mistakes.
pub(crate) fn named<'a>(value: &Expr, target: &'a Target) -> Vec<&'a Param> {
    let mut names = Vec::new();
    let templates = templates(value).unwrap_or_default();
    let literals = templates.iter().flat_map(modes::inside);
    for literal in literals.map(template_literal) {
        let text = literal.map_or_else(|_| String::new(), |literal| literal.value());
        let template = template::parse(&text);
        names.extend(silent::named(&template, &text));
        for piece in template.pieces {
            if let Piece::Slot(slot) = piece {
                names.push(composed(slot.root));
            }
        }
    }
    let params = target.params.iter();
    params
        .filter(|param| names.contains(&param.name()))
        .collect()
}

fn template_literal(value: &Expr) -> syn::Result<LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(literal),
            ..
        }) if literal.suffix().is_empty() => Ok(literal.clone()),
        other if is_meant_as_a_list(other) => Err(Fault::new("several keys must be a list")
            .help("use brackets: `key = [\"account:<from>\", \"account:<to>\"]`")
            .over(value)),
        _ => Err(Fault::new("`key` must be a string literal")
            .help("write the key template in place, for example `key = \"order:<id>\"`: its placeholders are checked at compile time")
            .over(value)),
    }
}

fn is_meant_as_a_list(value: &Expr) -> bool {
    match value {
        Expr::Tuple(_) | Expr::Repeat(_) => true,
        Expr::Reference(reference) => matches!(*reference.expr, Expr::Array(_)),
        Expr::Macro(call) => call.mac.path.is_ident("vec"),
        _ => false,
    }
}

/// Returns the expression for a placeholder.
fn part(
    slot: &Slot,
    is_one_of_several: bool,
    param: &Param,
    place: Span,
    literal: &LitStr,
) -> syn::Result<TokenStream> {
    // The parameter's own hygiene, shown at the literal. If one literal has several placeholders and the
    // compiler cannot show a part of it, the span is that of the parameter: otherwise the message would not
    // say which one is meant.
    let mut root = param.ident.clone();
    let is_vague = literal::exact(literal, slot.range.clone()).is_none();
    if !(is_vague && is_one_of_several && slot.path.is_empty()) {
        root.set_span(root.span().located_at(place));
    }
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

/// Returns the expansion of a placeholder whose parameter a `#[cfg]` removes.
fn removed(param: &Param, literal: &LitStr) -> Option<Removed> {
    let conditions = param.cfgs.iter().filter_map(|cfg| match &cfg.meta {
        Meta::List(list) => Some(&list.tokens),
        _ => None,
    });
    let conditions: Vec<_> = conditions.collect();
    let name = param.name();
    let fault = Fault::new(format!(
        "the key uses the parameter `{name}`, which `#[cfg]` removes"
    ))
    .help(format!(
        "write one function for each `#[cfg]`, or keep the parameter `{name}` in every configuration"
    ));
    (!conditions.is_empty()).then(|| Removed {
        cfgs: param.cfgs.clone(),
        otherwise: quote!(#[cfg(not(all(#(#conditions),*)))]),
        error: fault.at(literal.span()).into_compile_error(),
    })
}

/// Returns a field or method name. It may be a keyword written without its `r#`.
fn member(name: &str, place: Span, slot: &Slot, literal: &LitStr) -> syn::Result<Ident> {
    // A keyword since edition 2024, which is our edition whatever the user's is.
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
            Fault::new(format!("`{name}` is not a valid name of a field or method")).help(
                "write a parameter, then any of `.field`, `.0` and `.method()`, as in `<order.id>`",
            ),
        )),
    }
}

/// Reports an unknown name, or lets rustc report it if rustc can point at the name itself.
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

/// Returns code in which rustc does not find the name in `format` and suggests `near` instead.
//
// In a separate module: outside of it, a constant with that name would be found and the mistake would go
// unnoticed. Without a similar parameter, rustc would suggest importing such a constant, so rustc does not
// report that case.
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

/// Returns the fault of a name outside of a literal that is not a parameter's.
pub(crate) fn not_a_parameter(name: &str, target: &Target) -> Fault {
    special_name(name, target).unwrap_or_else(|| no_parameter(name, target))
}

/// Returns the fault of a name that cannot be a parameter's, or that is hidden.
fn special_name(name: &str, target: &Target) -> Option<Fault> {
    if target.hidden_names().iter().any(|hidden| hidden == name) {
        return Some(
            Fault::new(format!(
                "`{name}` is bound in a pattern, which the attribute cannot use under `#[async_trait]`"
            ))
            .help("name the parameter, and destructure it in the body"),
        );
    }
    (name == "self").then(|| {
        Fault::new(format!("`{}` has no `self` parameter", target.sig.ident))
            .help("add a receiver such as `&self`, or use another parameter")
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

/// Returns the parameter that `name` most likely means.
fn near_name<'a>(name: &str, target: &'a Target) -> Option<&'a Param> {
    let names: Vec<String> = nameable(target).map(Param::name).collect();
    let near = suggest::closest(name, names.iter().map(String::as_str))?;
    nameable(target).find(|param| param.name() == near)
}

fn nameable(target: &Target) -> impl Iterator<Item = &Param> {
    let params = target.params.iter();
    params.filter(|param| !target::is_hidden_argument(&param.name()))
}
