//! Reads the attribute's arguments as written: known options with their values, not checked yet.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, LitStr, Token};

use crate::duration::{self, Role};
use crate::elsewhere::{self, Elsewhere};
use crate::message::{Fault, Faults};
use crate::suggest;

/// An option of the attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opt {
    Key,
    Mode,
    Permits,
    Ttl,
    Wait,
    Renew,
    MaxHold,
    MinHold,
    OnLost,
    OnCancel,
    OnBusy,
    OnError,
    Enabled,
    Lease,
    Manager,
    Metric,
    Crate,
}

/// Every option, its name and an example. Parsing, the check for duplicates and the suggestions all read this
/// table, so a new option needs only an entry here.
const OPTIONS: &[(Opt, &str, &str)] = &[
    (Opt::Key, "key", "key = \"order:<id>\""),
    (Opt::Mode, "mode", "mode = shared"),
    (Opt::Permits, "permits", "permits = 3"),
    (Opt::Ttl, "ttl", "ttl = \"30s\""),
    (Opt::Wait, "wait", "wait = \"5s\""),
    (Opt::Renew, "renew", "renew = false"),
    (Opt::MaxHold, "max_hold", "max_hold = \"5m\""),
    (Opt::MinHold, "min_hold", "min_hold = \"10s\""),
    (Opt::OnLost, "on_lost", "on_lost = finish"),
    (Opt::OnCancel, "on_cancel", "on_cancel = detach"),
    (Opt::OnBusy, "on_busy", "on_busy = skip"),
    (
        Opt::OnError,
        "on_error",
        "on_error = |error| Err(error.to_string())",
    ),
    (Opt::Enabled, "enabled", "enabled = config.locks"),
    (Opt::Lease, "lease", "lease = lease"),
    (Opt::Manager, "manager", "manager = self.locks"),
    (Opt::Metric, "metric", "metric = \"settle-order\""),
    (Opt::Crate, "crate", "crate = ::my_crate::dlock"),
];

/// One `name = value`.
pub(crate) struct Given {
    pub(crate) opt: Opt,
    /// The number of options before this one.
    pub(crate) position: usize,
    /// The name as written. A message about the option points at it.
    pub(crate) name: Ident,
    /// The value, without the invisible groups that a `macro_rules` fragment adds.
    pub(crate) value: Expr,
}

/// The options of an attribute, each at most once, in the order of the source.
#[derive(Default)]
pub(crate) struct Args {
    given: Vec<Given>,
    /// Options seen, including those with an unreadable value: a `key` with a broken value is one mistake,
    /// and not a missing key as well.
    seen: Vec<Opt>,
}

impl Args {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Given> {
        self.given.iter()
    }

    pub(crate) fn get(&self, opt: Opt) -> Option<&Given> {
        self.given.iter().find(|given| given.opt == opt)
    }

    pub(crate) fn mentions(&self, opt: Opt) -> bool {
        self.seen.contains(&opt)
    }
}

/// Reads all arguments. Arguments that cannot be read are reported and omitted.
pub(crate) fn parse(tokens: TokenStream, faults: &mut Faults) -> Args {
    let mut args = Args::default();
    let mut position = 0;
    read_options(tokens, faults, |input, faults| {
        faults.at(position);
        position += 1;
        parse_one(input, position - 1, &mut args)
    });
    args
}

/// Reads options that are separated by commas. If `one` fails, the error is reported and the next option is
/// read.
pub(crate) fn read_options(
    tokens: TokenStream,
    faults: &mut Faults,
    mut one: impl FnMut(ParseStream<'_>, &mut Faults) -> syn::Result<()>,
) {
    let parser = |input: ParseStream<'_>| {
        while !input.is_empty() {
            if let Err(error) = one(input, faults) {
                faults.push(error);
                skip_to_comma(input);
            }
            if input.parse::<Option<Token![,]>>()?.is_none() && !input.is_empty() {
                faults.push(input.error("expected `,` between the options"));
                skip_to_comma(input);
                input.parse::<Option<Token![,]>>()?;
            }
        }
        Ok(())
    };
    if let Err(error) = parser.parse2(tokens) {
        faults.push(error);
    }
}

fn parse_one(input: ParseStream<'_>, position: usize, args: &mut Args) -> syn::Result<()> {
    if let Some(literal) = input.fork().parse::<Option<LitStr>>().ok().flatten() {
        // The first literal is certainly meant as the key: reporting a missing key as well would be a second
        // error for the same mistake. A duration after it is most likely the TTL, which other libraries
        // require.
        let token = literal.token();
        let is_duration = duration::parse(Role::Ttl, &literal.value()).is_ok();
        let help = if !args.mentions(Opt::Key) {
            args.seen.push(Opt::Key);
            format!("write `key = {token}`")
        } else if is_duration && !args.mentions(Opt::Ttl) {
            args.seen.push(Opt::Ttl);
            format!("to set the lease length, write `ttl = {token}`")
        } else if is_duration {
            format!("to limit the wait, write `wait = {token}`; otherwise remove it")
        } else {
            "add the name of the option, as in `wait = \"5s\"`, or remove the literal".to_owned()
        };
        return Err(
            Fault::new("expected `name = value`, found a string literal")
                .help(help)
                .at(input.span()),
        );
    }
    if !input.peek(Ident::peek_any) {
        return Err(
            Fault::new("expected an option such as `key = \"order:<id>\"`")
                .note(format!("the options are {}", names()))
                .at(input.span()),
        );
    }

    let name = input.call(Ident::parse_any)?;
    let Some(&(opt, text, example)) = find(&name.unraw().to_string()) else {
        let near = near(&name);
        let elsewhere = elsewhere::find(&name.unraw().to_string());
        let is_key = elsewhere.as_ref().is_some_and(Elsewhere::is_key);
        if is_key || elsewhere.is_none() && near == Some("key") {
            args.seen.push(Opt::Key);
        }
        return Err(unknown(&name, near, elsewhere.map(|it| it.help)));
    };
    // Only the second place is marked: an error at the first place as well would be two errors for one
    // mistake.
    let repeated = args.mentions(opt).then(|| {
        Fault::new(format!("duplicate option `{text}`"))
            .help(if opt == Opt::Key {
                "to hold both locks, write a list: `key = [\"account:<from>\", \"account:<to>\"]`"
            } else {
                "remove one of the two"
            })
            .at(name.span())
    });
    args.seen.push(opt);

    let is_other = input.peek(Token![==]) || input.peek(Token![=>]);
    if is_other || input.parse::<Option<Token![=]>>()?.is_none() {
        return Err(repeated.unwrap_or_else(|| {
            Fault::new(format!("option `{text}` needs a value"))
                .help(format!("write a value, for example `{example}`"))
                .at(name.span())
        }));
    }
    if input.is_empty() || input.peek(Token![,]) {
        return Err(
            Fault::new(format!("option `{text}` needs a value after the `=`"))
                .help(format!("write a value, for example `{example}`"))
                .at(name.span()),
        );
    }
    let value = parse_value(input).map_err(|error| {
        Fault::new(error.to_string())
            .help(format!("write a value, for example `{example}`"))
            .at(error.span())
    })?;
    if let Some(error) = repeated {
        return Err(error);
    }
    args.given.push(Given {
        opt,
        position,
        name,
        value,
    });
    Ok(())
}

fn parse_value(input: ParseStream<'_>) -> syn::Result<Expr> {
    // Text that remains inside brackets after a mistake would be reported again at the end of the input, but
    // not at the end of a fork.
    let ahead = input.fork();
    let value = ahead.parse().map(peel);
    if value.is_ok() {
        input.advance_to(&ahead);
    }
    while input.cursor() < ahead.cursor() && input.parse::<TokenTree>().is_ok() {}
    value
}

pub(crate) fn peel(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => peel(*group.expr),
        other => other,
    }
}

fn find(name: &str) -> Option<&'static (Opt, &'static str, &'static str)> {
    OPTIONS.iter().find(|(_, known, _)| name == *known)
}

/// Returns the option that `name` most likely means.
fn near(name: &Ident) -> Option<&'static str> {
    let known = OPTIONS.iter().map(|(_, name, _)| *name);
    suggest::closest(&name.unraw().to_string(), known)
}

fn unknown(name: &Ident, near: Option<&str>, elsewhere: Option<&str>) -> syn::Error {
    let fault = Fault::new(format!("unknown option `{name}`"));
    match (elsewhere, near) {
        (Some(help), _) => fault.help(help),
        (None, Some(near)) => fault.help(format!("an option with a similar name exists: `{near}`")),
        (None, None) => fault,
    }
    .note(format!("the options are {}", names()))
    .at(name.span())
}

fn names() -> String {
    suggest::list(OPTIONS.iter().map(|(_, name, _)| *name))
}

/// Skips the broken option, so that mistakes in the other options are found too.
fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}
