//! The mode of a lock: the options `mode` and `permits`, and `shared("..")` in a list of keys.

use quote::ToTokens;
use syn::{Expr, ExprCall, ExprLit, ExprUnary, Lit, LitInt, Stmt, UnOp};

use crate::message::Fault;
use crate::plan::{Mode, Permits};
use crate::suggest;
use crate::target::Target;
use crate::values::{self, Constant};

/// The keys of a list that are marked with `shared(..)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sharing {
    #[default]
    None,
    Some,
    All,
}

const SHARED: &[&str] = &[
    "read",
    "reader",
    "readers",
    "reading",
    "readlock",
    "read_lock",
    "readonly",
    "share",
];

const EXCLUSIVE: &[&str] = &[
    "write",
    "writer",
    "writers",
    "writing",
    "writelock",
    "write_lock",
    "mutex",
    "excl",
    "own",
];

const PERMITS: &[&str] = &["permits", "permit", "semaphore", "at_most", "limit"];

/// The meaning of a word for a mode.
#[derive(Clone, Copy)]
enum Meant {
    Shared,
    Exclusive,
    Permits,
}

fn meant(word: &str) -> Option<Meant> {
    let names = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(word));
    match suggest::closest(word, ["shared", "exclusive", "permits"]) {
        _ if names(SHARED) => Some(Meant::Shared),
        _ if names(EXCLUSIVE) => Some(Meant::Exclusive),
        _ if names(PERMITS) => Some(Meant::Permits),
        Some("shared") => Some(Meant::Shared),
        Some("exclusive") => Some(Meant::Exclusive),
        Some(_) => Some(Meant::Permits),
        None => None,
    }
}

/// Reads `mode`: one of two words.
pub(crate) fn mode(value: &Expr) -> syn::Result<Mode> {
    let called = match value {
        Expr::Call(call) => values::word(&call.func),
        _ => values::word(value),
    };
    let is_call = matches!(value, Expr::Call(_));
    let help = match called.as_deref().and_then(meant) {
        Some(Meant::Permits) => {
            Some("to limit the number of holders, write `permits = 3` in place of `mode`")
        }
        Some(Meant::Shared) if is_call => Some("write `mode = shared`"),
        Some(Meant::Exclusive) if is_call => Some("write `mode = exclusive`"),
        _ => None,
    };
    if let Some(help) = help {
        return Err(Fault::new("`mode` must be `shared` or `exclusive`")
            .help(help)
            .over(value));
    }
    let words = [
        ("shared", SHARED, Mode::Shared),
        ("exclusive", EXCLUSIVE, Mode::Exclusive),
    ];
    let help = "for a function that only reads, write `mode = shared`; for one that writes, remove `mode` (`exclusive` is the default)";
    values::one_of("mode", words, help, value)
}

/// Reads `permits`: a number, or an expression of type `u32`.
pub(crate) fn permits(value: &Expr, target: &Target) -> syn::Result<Permits> {
    let (is_negative, number) = match value {
        Expr::Unary(ExprUnary {
            op: UnOp::Neg(_),
            expr,
            ..
        }) => (true, &**expr),
        _ => (false, value),
    };
    let Expr::Lit(ExprLit { lit, .. }) = number else {
        let is_param = values::is_param(value, &target.params);
        let constant = values::constant(value).filter(|_| !is_param);
        return Ok(match constant {
            Some(Constant::Free) if !may_be_generic(value, target) => {
                Permits::Constant(value.clone())
            }
            Some(_) => Permits::Associated(value.clone()),
            None => Permits::Computed(unbraced(value).clone()),
        });
    };
    match lit {
        Lit::Int(number) if is_negative || is_zero(number) => {
            Err(Fault::new("`permits` must be at least 1")
                .help("to let one caller at a time hold the lock, remove `permits`")
                .over(value))
        }
        Lit::Int(number) if matches!(number.suffix(), "" | "u32") => {
            let number = number.base10_parse().map_err(|_| {
                Fault::new(format!("`permits` must be at most {}", u32::MAX))
                    .help("for any number of holders, write `mode = shared`")
                    .over(value)
            })?;
            Ok(Permits::Fixed(number))
        }
        other => {
            let number = match other {
                Lit::Int(number) => number.base10_parse().ok(),
                Lit::Str(text) => text.value().trim().parse().ok(),
                _ => None,
            };
            let number: u32 = number.filter(|number| *number > 0).unwrap_or(3);
            Err(Fault::new("`permits` must be a `u32`")
                .help(format!("write a number, for example `permits = {number}`"))
                .over(value))
        }
    }
}

/// Returns the expression in braces, which say that it is not a constant. As an argument it needs none, and a
/// lint would report them.
fn unbraced(value: &Expr) -> &Expr {
    match value {
        Expr::Block(block) if block.label.is_none() => match block.block.stmts.as_slice() {
            [Stmt::Expr(inner, None)] => inner,
            _ => value,
        },
        _ => value,
    }
}

/// Returns `true` for a generic parameter, which a static cannot use. Those of the `impl` around a method are
/// not visible here; by convention they are a single letter.
fn may_be_generic(value: &Expr, target: &Target) -> bool {
    values::ident(value).is_some_and(|name| {
        let mut params = target.sig.generics.const_params();
        name.to_string().len() == 1 || params.any(|param| param.ident == *name)
    })
}

fn is_zero(number: &LitInt) -> bool {
    number.base10_digits() == "0"
}

/// Returns the template of a key, and whether it is marked with `shared(..)`.
pub(crate) fn marked(value: &Expr, is_list: bool) -> syn::Result<(&Expr, bool)> {
    let Expr::Call(call) = value else {
        return Ok((value, false));
    };
    let Some(name) = values::ident(peeled(&call.func)).map(ToString::to_string) else {
        return Ok((value, false));
    };
    let meant = meant(&name);
    let template = call.args.iter().find_map(text);
    if !is_list {
        let Some(meant) = meant else {
            return Ok((value, false));
        };
        let template = template.unwrap_or_else(|| "\"order:<id>\"".to_owned());
        let fault = if name == "shared" {
            Fault::new("`shared(..)` is allowed only in a list of keys")
        } else {
            Fault::new("`key` must be a string literal")
        };
        return Err(fault
            .help(match meant {
                Meant::Shared => format!("write `key = {template}, mode = shared`"),
                Meant::Exclusive => {
                    format!("write `key = {template}`: a lock is exclusive by default")
                }
                Meant::Permits => format!("write `key = {template}, permits = 3`"),
            })
            .over(value));
    }
    if name == "shared" {
        return argument(call).map(|template| (template, true));
    }
    if meant.is_none() && template.is_none() {
        return Ok((value, false));
    }
    let example = template.unwrap_or_else(|| "\"tenant:<tenant>\"".to_owned());
    Err(
        Fault::new(format!("unknown mode `{name}(..)` in the list of keys"))
            .help(match meant {
                Some(Meant::Shared) => format!("write `shared({example})`"),
                Some(Meant::Exclusive) => {
                    format!("write `{example}`: a key is exclusive, unless `mode` or `permits` is set")
                }
                Some(Meant::Permits) => format!(
                    "write `{example}`, and `permits = 3` as an option: it applies to every key without `shared(..)`"
                ),
                None => format!("write `{example}` or `shared({example})`"),
            })
            .over(value),
    )
}

/// Returns the only argument of `shared(..)`.
fn argument(call: &ExprCall) -> syn::Result<&Expr> {
    const ONE_EACH: &str = "write `shared(..)` around each key: `shared(\"shop:<shop>\"), shared(\"tenant:<tenant>\")`";
    let mut args = call.args.iter().map(peeled);
    let Some(first) = args.next() else {
        return Err(Fault::new("`shared(..)` needs a key template")
            .help("write the template in it, for example `shared(\"tenant:<tenant>\")`")
            .over(call));
    };
    let beyond = match first {
        Expr::Array(_) | Expr::Tuple(_) => Some(first),
        _ => args.next(),
    };
    match beyond {
        Some(beyond) => Err(Fault::new("`shared(..)` takes one key template")
            .help(ONE_EACH)
            .over(beyond)),
        None => Ok(first),
    }
}

/// Returns the templates in an element of a list, even if they are marked wrongly.
pub(crate) fn inside(value: &Expr) -> Vec<&Expr> {
    match value {
        Expr::Call(call) => call.args.iter().flat_map(inside).collect(),
        Expr::Array(list) => list.elems.iter().flat_map(inside).collect(),
        Expr::Group(group) => inside(&group.expr),
        other => vec![other],
    }
}

fn peeled(value: &Expr) -> &Expr {
    match value {
        Expr::Group(group) => peeled(&group.expr),
        other => other,
    }
}

/// Returns a string literal as written.
fn text(value: &Expr) -> Option<String> {
    match peeled(value) {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.to_token_stream().to_string()),
        _ => None,
    }
}
