//! Reads the options of `#[key_part(..)]` on a type, a variant or a field. Only their form is checked.

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Attribute, Data, Expr, ExprLit, Lit, LitStr, Meta, Path, Token, token};

use super::case::{self, Case};
use crate::args::read_options;
use crate::message::{Fault, Faults};
use crate::suggest;

/// The item to which an attribute belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Struct,
    Enum,
    Union,
    Variant,
    Field,
}

impl Place {
    pub(super) fn of(data: &Data) -> Self {
        match data {
            Data::Struct(_) => Self::Struct,
            Data::Enum(_) => Self::Enum,
            Data::Union(_) => Self::Union,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Struct => "a struct",
            Self::Enum => "an enum",
            Self::Union => "a union",
            Self::Variant => "a variant",
            Self::Field => "a field",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Opt {
    RenameAll,
    Crate,
    Rename,
    Skip,
}

/// Every option, its name and an example.
const OPTIONS: [(Opt, &str, &str); 4] = [
    (Opt::RenameAll, "rename_all", "rename_all = \"snake_case\""),
    (Opt::Crate, "crate", "crate = ::my_crate::dlock"),
    (Opt::Rename, "rename", "rename = \"in_transit\""),
    (Opt::Skip, "skip", "skip"),
];

impl Opt {
    /// Returns the reason why the option has no effect there, with advice, or `None` if it has an effect.
    fn misplaced(self, place: Place) -> Option<&'static str> {
        const NO_NAMES: &str = "remove it: names of types and fields are not part of a key";
        match (self, place) {
            (Self::RenameAll, Place::Enum)
            | (Self::Crate, Place::Struct | Place::Enum | Place::Union)
            | (Self::Rename, Place::Variant)
            | (Self::Skip, Place::Field) => None,
            (Self::RenameAll, Place::Variant) => {
                Some("move it to the enum, or rename only this variant with `rename = \"..\"`")
            }
            (Self::Rename, Place::Enum) => {
                Some("to rename the variants, write `rename_all = \"snake_case\"`")
            }
            (Self::RenameAll | Self::Rename, _) => Some(NO_NAMES),
            (Self::Crate, _) => Some("move it to the type"),
            (Self::Skip, Place::Struct) => Some("move it to the field to exclude"),
            (Self::Skip, _) => Some("remove it: every value needs a text in the key"),
        }
    }
}

/// The options of one item, each at most once.
#[derive(Default)]
pub(super) struct Options {
    pub(super) rename_all: Case,
    pub(super) krate: Option<Path>,
    pub(super) rename: Option<LitStr>,
    pub(super) skip: bool,
    seen: Vec<Opt>,
}

/// Reads all `#[key_part(..)]` of one place. Options that cannot be read are reported and omitted.
pub(super) fn read(attrs: &[Attribute], place: Place, faults: &mut Faults) -> Options {
    let mut options = Options::default();
    for attr in attrs {
        if !attr.path().is_ident("key_part") {
            continue;
        }
        let Meta::List(list) = &attr.meta else {
            faults.push(not_a_list(place).over(&attr.meta));
            continue;
        };
        read_options(list.tokens.clone(), faults, |input, _| {
            read_one(input, place, &mut options)
        });
    }
    options
}

fn not_a_list(place: Place) -> Fault {
    Fault::new("`#[key_part]` needs its options in parentheses").help(format!(
        "write the options in parentheses, for example `#[key_part({})]`",
        example(place)
    ))
}

/// Returns an option that is allowed there, with a value.
fn example(place: Place) -> &'static str {
    let useful = OPTIONS
        .iter()
        .find(|(opt, ..)| opt.misplaced(place).is_none());
    useful.map_or("..", |(.., example)| example)
}

fn read_one(input: ParseStream<'_>, place: Place, options: &mut Options) -> syn::Result<()> {
    if !input.peek(Ident::peek_any) {
        return Err(Fault::new("expected an option name")
            .help(format!(
                "write an option, for example `#[key_part({})]`",
                example(place)
            ))
            .note(all_options())
            .at(input.span()));
    }
    let name = input.call(Ident::parse_any)?;
    let Some(&(opt, text, example)) = OPTIONS.iter().find(|(_, known, _)| name == known) else {
        return Err(unknown(&name));
    };
    if options.seen.contains(&opt) {
        return Err(Fault::new(format!("duplicate option `{text}`"))
            .help("remove one of the two")
            .at(name.span()));
    }
    options.seen.push(opt);
    if let Some(instead) = opt.misplaced(place) {
        return Err(
            Fault::new(format!("`{text}` cannot be used on {}", place.name()))
                .help(instead)
                .at(name.span()),
        );
    }
    if opt == Opt::Skip {
        if !input.is_empty() && !input.peek(Token![,]) {
            return Err(Fault::new("`skip` takes no value")
                .help("write `#[key_part(skip)]`")
                .at(name.span()));
        }
        options.skip = true;
        return Ok(());
    }

    let value = value(input, &name, example)?;
    match opt {
        Opt::RenameAll => options.rename_all = known_case(&quoted(&name, value)?)?,
        Opt::Rename => options.rename = Some(quoted(&name, value)?),
        Opt::Crate => options.krate = Some(path(value)?),
        Opt::Skip => {}
    }
    Ok(())
}

/// Returns the value after the `=`, without the invisible groups that a `macro_rules` fragment adds.
fn value(input: ParseStream<'_>, name: &Ident, example: &str) -> syn::Result<Expr> {
    let needed = || {
        Fault::new(format!("option `{name}` needs a value"))
            .help(format!("write a value, for example `{example}`"))
            .at(name.span())
    };
    if input.peek(token::Paren) {
        return Err(needed());
    }
    input
        .parse::<Option<Token![=]>>()?
        .filter(|_| !input.is_empty() && !input.peek(Token![,]))
        .ok_or_else(needed)?;
    let mut value: Expr = input.parse()?;
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    Ok(value)
}

fn quoted(name: &Ident, value: Expr) -> syn::Result<LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Ok(text),
        other => {
            let text = match &other {
                Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
                _ => None,
            };
            let text = text.unwrap_or_else(|| "..".to_owned());
            Err(Fault::new(format!("`{name}` must be a string literal"))
                .help(format!("write `{name} = \"{text}\"`"))
                .over(other))
        }
    }
}

fn known_case(name: &LitStr) -> syn::Result<Case> {
    let text = name.value();
    Case::named(&text).ok_or_else(|| {
        let fault = Fault::new(format!("unknown case `{text}`"));
        match suggest::closest(&text, case::names()) {
            Some(near) => fault.help(format!("a case with a similar name exists: `{near}`")),
            None => fault,
        }
        .note(format!("the cases are {}", suggest::list(case::names())))
        .at(name.span())
    })
}

fn path(value: Expr) -> syn::Result<Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path),
        other => Err(Fault::new("`crate` must be a path")
            .help("write `crate = ::my_crate::dlock`, without quotes")
            .over(other)),
    }
}

fn unknown(name: &Ident) -> syn::Error {
    let fault = Fault::new(format!("unknown option `{name}`"));
    let known = OPTIONS.iter().map(|(_, name, _)| *name);
    match suggest::closest(&name.unraw().to_string(), known) {
        Some(near) => fault.help(format!("an option with a similar name exists: `{near}`")),
        None => fault,
    }
    .note(all_options())
    .at(name.span())
}

fn all_options() -> &'static str {
    "the options are `rename_all` and `crate` on the type, `rename` on a variant, and `skip` on a field"
}
