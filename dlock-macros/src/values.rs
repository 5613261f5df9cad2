//! Converts the value of one option from an expression to its meaning.

use syn::{Expr, ExprLit, Ident, Lit, Path, Type, UnOp};

use crate::args::Given;
use crate::duration::{self, Role};
use crate::literal;
use crate::message::Fault;
use crate::params::Param;
use crate::plan::{Busy, Cancel, Length, Loss, Patience};
use crate::suggest;

/// Reads `ttl`, `max_hold` and `min_hold`: text, or an expression of type `Duration`.
pub(crate) fn length(role: Role, value: &Expr, params: &[Param]) -> syn::Result<Length> {
    if let Some(text) = duration_text(role, value)? {
        return match duration::parse(role, &text) {
            Ok(duration) => Ok(Length::Fixed(duration)),
            Err(fault) => Err(fault.over(value)),
        };
    }
    // Names of parameters may be in capitals, too.
    let constant = constant(value).filter(|_| !is_param(value, params));
    Ok(match constant {
        Some(Constant::Free) => Length::Constant(value.clone()),
        Some(Constant::Associated) => Length::Associated(value.clone()),
        None => Length::Computed(value.clone()),
    })
}

/// Reads `wait`: text, `never`, `forever`, or an expression of type `Duration` or `Wait`.
pub(crate) fn patience(value: &Expr, params: &[Param]) -> syn::Result<Patience> {
    let text = duration_text(Role::Wait, value)?;
    let word = text.clone().or_else(|| Some(ident(value)?.to_string()));
    match word.as_deref() {
        Some("never") => return Ok(Patience::Never),
        Some("forever") => return Ok(Patience::Forever),
        Some(word) if is_meant_for_wait(word, text.is_some()) && !is_param(value, params) => {
            let fault = Fault::new("`wait` must be a duration, `never` or `forever`");
            return Err(match suggest::closest(word, WAITS) {
                Some(near) => fault.help(format!("write `wait = {near}`")),
                None => fault.help("write `wait = never` to try once, or `wait = forever`"),
            }
            .over(value));
        }
        _ => {}
    }
    match text {
        Some(text) => match duration::parse(Role::Wait, &text) {
            Ok(duration) => Ok(Patience::For(duration)),
            Err(fault) => Err(fault.over(value)),
        },
        None => Ok(Patience::Computed(value.clone())),
    }
}

const WAITS: [&str; 2] = ["never", "forever"];

/// Returns `true` if a word is neither a duration nor the name of one, but a misspelt one of [`WAITS`].
fn is_meant_for_wait(word: &str, is_quoted: bool) -> bool {
    const OTHERS: &[&str] = &["none", "no", "zero", "nowait", "infinite", "unlimited"];
    // `Never` may be an imported variant, and `NEVER` a constant.
    let is_plain = is_quoted || word == "None" || word.chars().all(|c| c.is_ascii_lowercase());
    let word = &*word.to_lowercase();
    is_plain && (OTHERS.contains(&word) || suggest::closest(word, WAITS).is_some())
}

pub(crate) fn is_param(value: &Expr, params: &[Param]) -> bool {
    ident(value).is_some_and(|name| params.iter().any(|param| param.ident == *name))
}

pub(crate) fn boolean(given: &Given) -> syn::Result<bool> {
    match &given.value {
        Expr::Lit(ExprLit {
            lit: Lit::Bool(lit),
            ..
        }) => Ok(lit.value),
        other => Err(
            Fault::new(format!("`{}` must be `true` or `false`", given.name))
                .help(format!("write `{} = false`, or remove it", given.name))
                .over(other),
        ),
    }
}

pub(crate) fn loss(value: &Expr) -> syn::Result<Loss> {
    let words = [
        (
            "stop",
            &["cancel", "abort", "drop", "release"][..],
            Loss::Stop,
        ),
        ("finish", &["continue", "complete", "ignore"], Loss::Finish),
    ];
    let help = "to drop the body, remove `on_lost` (`stop` is the default); to run the body to its end without its lease, write `on_lost = finish`";
    one_of("on_lost", words, help, value)
}

pub(crate) fn cancel(value: &Expr) -> syn::Result<Cancel> {
    let words = [
        (
            "stop",
            &["release", "cancel", "abort", "drop"][..],
            Cancel::Stop,
        ),
        (
            "detach",
            &["finish", "continue", "complete", "spawn"],
            Cancel::Detach,
        ),
    ];
    let help = "to drop the body with its caller, remove `on_cancel` (`stop` is the default); to run the body to its end in a separate task, write `on_cancel = detach`";
    one_of("on_cancel", words, help, value)
}

/// Reads one of two words. Each has synonyms that certainly mean it. The two are opposites, so a word that
/// resembles neither is not guessed; `help` explains both.
pub(crate) fn one_of<T>(
    option: &str,
    words: [(&str, &[&str], T); 2],
    help: &str,
    value: &Expr,
) -> syn::Result<T> {
    let names = [words[0].0, words[1].0];
    let given = word(value);
    let is_plain = ident(value).is_some();
    let mut near = given
        .as_deref()
        .and_then(|given| suggest::closest(given, names));
    for (name, others, meaning) in words {
        let is_given = given.as_deref() == Some(name);
        if is_plain && is_given {
            return Ok(meaning);
        }
        if given
            .as_deref()
            .is_some_and(|given| others.iter().any(|it| it.eq_ignore_ascii_case(given)))
        {
            near = Some(name);
        }
    }
    let fault = Fault::new(format!(
        "`{option}` must be `{}` or `{}`",
        names[0], names[1]
    ));
    let fault = match near {
        Some(near) => fault.help(format!("write `{option} = {near}`")),
        None => fault.help(help),
    };
    Err(fault.over(value))
}

/// Reads `lease`: a name for the body to use.
pub(crate) fn new_name(given: &Given) -> syn::Result<Ident> {
    ident(&given.value)
        .filter(|name| *name != "self" && *name != "Self" && *name != "super" && *name != "crate")
        .cloned()
        .ok_or_else(|| {
            Fault::new(format!("`{}` must be an identifier", given.name))
                .help(format!(
                    "write `{0} = {0}` and use `{0}` in the body",
                    given.name
                ))
                .over(&given.value)
        })
}

/// Reads `on_busy`: the word `skip`, or an expression.
pub(crate) fn busy(value: &Expr, params: &[Param]) -> syn::Result<Busy> {
    match ident(value) {
        Some(word) if word == "skip" && is_param(value, params) => Err(Fault::new(
            "`on_busy = skip` is ambiguous: `skip` is also a parameter",
        )
        .help("rename the parameter, or write `on_busy = { skip }` to return its value")
        .over(value)),
        Some(word) if word == "skip" => Ok(Busy::Skip(word.span())),
        _ => Ok(Busy::Value(value.clone())),
    }
}

/// Returns the mistake of `on_busy = "skip"` in a function whose value is not text.
pub(crate) fn quoted_skip(value: &Expr, output: &Type) -> Option<syn::Error> {
    let has_skip = match output {
        Type::Tuple(tuple) => tuple.elems.is_empty(),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            last.ident == "Option" || last.ident == "Result"
        }
        _ => false,
    };
    let is_quoted = matches!(value, Expr::Lit(_)) && word(value).as_deref() == Some("skip");
    (has_skip && is_quoted).then(|| {
        Fault::new("`on_busy = \"skip\"` is text, not the word `skip`")
            .help("write `on_busy = skip`, without quotes")
            .over(value)
    })
}

/// Reads `metric`: a literal that every metrics exporter accepts unchanged.
pub(crate) fn metric(given: &Given) -> syn::Result<String> {
    const LONGEST: usize = 64;
    let value = &given.value;
    let literal = match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(literal),
            ..
        }) if literal.suffix().is_empty() => literal,
        _ => {
            return Err(Fault::new("`metric` must be a string literal")
                .help("write one name for all calls, for example `metric = \"settle-order\"`")
                .over(value));
        }
    };
    let text = literal.value();
    if text.is_empty() {
        return Err(Fault::new("`metric` is empty")
            .help("write a name, for example `metric = \"settle-order\"`; without `metric`, metrics show the key template")
            .over(value));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    if let Some((at, wrong)) = text.char_indices().find(|(_, c)| !is_plain(*c)) {
        let fault = Fault::new(format!(
            "invalid character `{}` in `metric`",
            wrong.escape_debug()
        ));
        let fault = if wrong == '<' {
            fault.help(
                "write one name for all calls; without `metric`, metrics show the key template",
            )
        } else {
            fault.help("use only ASCII letters, digits, `-`, `_`, `.`, `:` and `/`, which all metrics exporters accept unchanged")
        };
        return Err(literal::report(literal, at..at + wrong.len_utf8(), fault));
    }
    if text.len() > LONGEST {
        let fault = Fault::new(format!("`metric` is {} bytes long", text.len()));
        return Err(fault
            .help(format!(
                "use at most {LONGEST} bytes: the name is part of every sample"
            ))
            .over(value));
    }
    Ok(text)
}

pub(crate) fn path(given: &Given) -> syn::Result<Path> {
    match &given.value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path.clone()),
        other => Err(Fault::new(format!("`{}` must be a path", given.name))
            .help("write `crate = ::my_crate::dlock`, without quotes")
            .over(other)),
    }
}

/// Returns the text of a string literal. Other literals are not durations.
fn duration_text(role: Role, value: &Expr) -> syn::Result<Option<String>> {
    let name = role.name();
    let negative = match value {
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => Some(&*unary.expr),
        _ => None,
    };
    let Expr::Lit(literal) = negative.unwrap_or(value) else {
        return Ok(None);
    };
    match &literal.lit {
        Lit::Str(text) if negative.is_none() => Ok(Some(text.value())),
        Lit::Int(number) if number.suffix().is_empty() => {
            Err(duration::bare_number(role, number.base10_digits()).over(value))
        }
        Lit::Float(number) if number.suffix().is_empty() => {
            Err(duration::bare_number(role, number.base10_digits()).over(value))
        }
        Lit::Int(number) if negative.is_none() => {
            Err(duration::without_quotes(role, number.base10_digits(), number.suffix()).over(value))
        }
        Lit::Float(number) if negative.is_none() => {
            Err(duration::without_quotes(role, number.base10_digits(), number.suffix()).over(value))
        }
        _ => Err(Fault::new(format!("`{name}` must be a duration"))
            .help(format!(
                "write a duration, for example `{name} = \"{}\"`",
                role.example()
            ))
            .over(value)),
    }
}

pub(crate) enum Constant {
    /// Outside of every function and type.
    Free,
    /// `Self::TTL` and `T::TTL` may depend on generics, which a constant item cannot use.
    Associated,
}

/// Returns the kind of constant that a value certainly is, based on its name in capitals.
pub(crate) fn constant(value: &Expr) -> Option<Constant> {
    let Expr::Path(path) = value else {
        return None;
    };
    let mut from_end = path.path.segments.iter().rev();
    let shouts = |name: String| {
        name.starts_with(|c: char| c.is_uppercase()) && !name.contains(|c: char| c.is_lowercase())
    };
    let last = from_end.next()?;
    if !last.arguments.is_none() || !shouts(last.ident.to_string()) {
        return None;
    }
    let mut modules = from_end.map(|segment| segment.ident.to_string());
    let is_free =
        path.qself.is_none() && modules.all(|name| !name.contains(|c: char| c.is_uppercase()));
    Some(if is_free {
        Constant::Free
    } else {
        Constant::Associated
    })
}

pub(crate) fn ident(value: &Expr) -> Option<&Ident> {
    match value {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}

/// Returns a name, even if it is written in quotes or with its type.
pub(crate) fn word(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        Expr::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_known_by_its_name_in_capitals() {
        for (text, expected) in [
            ("TTL", Some(true)),
            ("T1", Some(true)),
            ("LOCK_TTL", Some(true)),
            ("config::TTL", Some(true)),
            ("crate::config::TTL", Some(true)),
            ("Self::TTL", Some(false)),
            ("Config::TTL", Some(false)),
            ("shop::Config::TTL", Some(false)),
            ("<A as B>::TTL", Some(false)),
            ("ttl", None),
            ("Ttl", None),
            ("tTL", None),
            ("config::ttl", None),
            ("TTL::<u8>", None),
            ("TTL()", None),
        ] {
            let value: Expr = syn::parse_str(text).expect("an expression");
            let is_free = constant(&value).map(|it| matches!(it, Constant::Free));
            assert_eq!(is_free, expected, "{text}");
        }
    }

    #[test]
    fn a_word_may_be_in_quotes_or_have_its_type_and_a_name_may_not() {
        for (text, expected, is_name) in [
            ("stop", Some("stop"), true),
            ("\"stop\"", Some("stop"), false),
            ("Loss::Stop", Some("Stop"), false),
            ("<Loss as A>::Stop", Some("Stop"), false),
            ("stop()", None, false),
            ("7", None, false),
        ] {
            let value: Expr = syn::parse_str(text).expect("an expression");
            assert_eq!(word(&value).as_deref(), expected, "{text}");
            assert_eq!(ident(&value).is_some(), is_name, "{text}");
        }
    }
}
