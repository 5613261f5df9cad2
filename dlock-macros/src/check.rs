//! Turns arguments and function into a `Plan`, or reports every mistake at once.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::Expr;
use syn::spanned::Spanned;

use crate::args::{Args, Given, Opt};
use crate::blocking;
use crate::duration::Role;
use crate::idents;
use crate::key;
use crate::message::{Fault, Faults};
use crate::modes::{self, Sharing};
use crate::output;
use crate::owned;
use crate::params::{Binding, Param};
use crate::plan::{Busy, Cancel, Length, Mode, Output, Patience, Plan, Setting};
use crate::target::{Shape, Target};
use crate::values;

/// Makes the plan. Returns `None` if `faults` has grown or was not empty before.
pub(crate) fn check(args: &Args, target: &Target, faults: &mut Faults) -> Option<Plan> {
    let mut plan = Plan {
        krate: None,
        keys: Vec::new(),
        settings: Vec::new(),
        manager: None,
        on_busy: None,
        on_error: None,
        enabled: None,
        metric: None,
        lease: None,
        detach: None,
        blocking: matches!(target.shape, Shape::Blocking),
        captures: Vec::new(),
        unused: Vec::new(),
        output: Output::Inferred,
    };
    let mut in_key = Vec::new();
    let mut sharing = Sharing::None;

    if !args.mentions(Opt::Key) {
        faults.at(0);
        faults.push(
            Fault::new("`#[distributed_lock]` needs the option `key`")
                .help("add a key template, for example `key = \"order:<id>\"`")
                .at(Span::call_site()),
        );
    }
    for given in args.iter() {
        faults.at(given.position);
        let value = &given.value;
        match given.opt {
            Opt::Key => {
                let resolved = key::resolve(value, target, faults);
                plan.keys = resolved.keys;
                in_key = resolved.used;
                sharing = resolved.sharing;
            }
            Opt::Mode => {
                let mode = faults.keep(modes::mode(value));
                plan.settings.extend(mode.map(Setting::Mode));
            }
            Opt::Permits => {
                let permits = faults.keep(modes::permits(value, target));
                plan.settings.extend(permits.map(Setting::Permits));
            }
            Opt::Ttl => plan.set_length(Role::Ttl, value, target, faults),
            Opt::MaxHold => plan.set_length(Role::MaxHold, value, target, faults),
            Opt::MinHold => plan.set_length(Role::MinHold, value, target, faults),
            Opt::OnCancel => {
                if let Some(Cancel::Detach) = faults.keep(values::cancel(value)) {
                    plan.detach = Some(value.span());
                }
            }
            Opt::Wait => {
                let wait = faults.keep(values::patience(value, &target.params));
                plan.settings.extend(wait.map(Setting::Wait));
            }
            Opt::Renew => {
                let renew = faults.keep(values::boolean(given));
                plan.settings.extend(renew.map(Setting::Renew));
            }
            Opt::OnLost => {
                let loss = faults.keep(values::loss(value));
                plan.settings.extend(loss.map(Setting::OnLost));
            }
            Opt::OnBusy => plan.on_busy = faults.keep(values::busy(value, &target.params)),
            Opt::OnError => plan.on_error = Some(value.clone()),
            Opt::Enabled => plan.enabled = Some(value.clone()),
            Opt::Metric => plan.metric = faults.keep(values::metric(given)),
            Opt::Manager => plan.manager = Some(value.clone()),
            Opt::Crate => plan.krate = faults.keep(values::path(given)),
            Opt::Lease => plan.lease = faults.keep(lease(given, target)),
        }
    }
    if matches!(plan.on_busy, Some(Busy::Skip(_))) && !args.mentions(Opt::Wait) {
        // A call that is skipped when the lock is busy has no reason to wait.
        plan.settings.push(Setting::Wait(Patience::Never));
    }
    contradictions(args, &plan, sharing, faults);
    if plan.blocking {
        blocking::check(args, target, faults);
    }

    faults.at_item();
    if plan.detach.is_some() {
        for error in owned::faults(&target.sig) {
            faults.push(error);
        }
    }
    let handled = args.mentions(Opt::OnError);
    if let Some(output) = faults.keep(output::of(target, handled)) {
        plan.output = output;
    }
    captures(&mut plan, args, target, &in_key);
    faults.is_empty().then_some(plan)
}

impl Plan {
    fn set_length(&mut self, role: Role, value: &Expr, target: &Target, faults: &mut Faults) {
        let length = faults.keep(values::length(role, value, &target.params));
        self.settings
            .extend(length.map(|length| Setting::Length(role, length)));
    }

    fn length(&self, wanted: Role) -> Option<&Length> {
        self.settings.iter().find_map(|setting| match setting {
            Setting::Length(role, length) if *role == wanted => Some(length),
            _ => None,
        })
    }
}

/// Returns the name of the lease, which must differ from the names of the parameters.
fn lease(given: &Given, target: &Target) -> syn::Result<Ident> {
    let lease = values::new_name(given)?;
    if target.params.iter().any(|param| lease == param.name()) {
        return Err(
            Fault::new(format!("`lease = {lease}` shadows the parameter `{lease}`"))
                .help("choose another name for the lease")
                .over(&given.value),
        );
    }
    Ok(lease)
}

/// Reports pairs of options of which one makes the other pointless. The error points at the later option.
fn contradictions(args: &Args, plan: &Plan, sharing: Sharing, faults: &mut Faults) {
    let mut refuse = |a: Opt, b: Opt, fault: Fault| {
        let later = args
            .iter()
            .filter(|given| given.opt == a || given.opt == b)
            .last();
        if let Some(later) = later {
            faults.at(later.position);
            faults.push(fault.at(later.name.span()));
        }
    };
    let set = |wanted: fn(&Setting) -> bool| plan.settings.iter().any(wanted);
    let is_renewed = !set(|setting| matches!(setting, Setting::Renew(false)));
    let (ttl, min_hold, max_hold) = (
        plan.length(Role::Ttl),
        plan.length(Role::MinHold),
        plan.length(Role::MaxHold),
    );

    if !is_renewed && max_hold.is_some() {
        refuse(
            Opt::Renew,
            Opt::MaxHold,
            Fault::new("`max_hold` cannot be combined with `renew = false`")
                .help("remove one of the two; without renewal, the lease ends after its `ttl`"),
        );
    }
    if longer(min_hold, max_hold) {
        refuse(
            Opt::MinHold,
            Opt::MaxHold,
            Fault::new("`min_hold` is longer than `max_hold`")
                .help("make it at most as long as `max_hold`, which ends the lease"),
        );
    }
    if !is_renewed && longer(min_hold, ttl) {
        refuse(
            Opt::MinHold,
            Opt::Renew,
            Fault::new("`min_hold` is longer than `ttl`, and `renew = false` disables renewal")
                .help("make `ttl` at least as long as `min_hold`, or remove `renew = false`"),
        );
    }
    if plan.enabled.is_some() && plan.lease.is_some() {
        refuse(
            Opt::Enabled,
            Opt::Lease,
            Fault::new("`lease` cannot be combined with `enabled`")
                .help("remove one of the two: a call without a lock has no lease"),
        );
    }
    if plan.on_busy.is_some() && set(|setting| matches!(setting, Setting::Wait(Patience::Forever)))
    {
        refuse(
            Opt::OnBusy,
            Opt::Wait,
            Fault::new("`on_busy` has no effect with `wait = forever`")
                .help("remove one of the two, or limit the wait: `wait = \"5s\"`"),
        );
    }
    let is_shared = set(|setting| matches!(setting, Setting::Mode(Mode::Shared)));
    let has_mode = set(|setting| matches!(setting, Setting::Mode(_)));
    let has_permits = set(|setting| matches!(setting, Setting::Permits(_)));
    if has_mode && has_permits {
        refuse(
            Opt::Mode,
            Opt::Permits,
            Fault::new("`mode` cannot be combined with `permits`")
                .help("remove one of the two: `permits` is a mode of its own"),
        );
        return;
    }
    match sharing {
        Sharing::All if is_shared => refuse(
            Opt::Key,
            Opt::Mode,
            Fault::new("`shared(..)` has no effect with `mode = shared`")
                .help("remove one of the two: every key of the list is shared"),
        ),
        Sharing::Some if is_shared => refuse(
            Opt::Key,
            Opt::Mode,
            Fault::new("`shared(..)` has no effect with `mode = shared`")
                .help("to share every key of the list, remove `shared(..)`; to hold the other keys exclusively, remove `mode = shared`"),
        ),
        Sharing::All if has_mode || has_permits => {
            let (opt, name) = if has_mode {
                (Opt::Mode, "mode")
            } else {
                (Opt::Permits, "permits")
            };
            refuse(
                Opt::Key,
                opt,
                Fault::new(format!("`{name}` has no effect: every key of the list is `shared(..)`"))
                    .help(format!("remove `{name}`, or remove `shared(..)` from a key")),
            );
        }
        _ => {}
    }
}

/// Returns `true` if both are known and the first is longer.
fn longer(a: Option<&Length>, b: Option<&Length>) -> bool {
    matches!((a, b), (Some(Length::Fixed(a)), Some(Length::Fixed(b))) if a > b)
}

/// Finds the parameters that the body's future must own from its start.
///
/// The other parameters drop after the release, and a field that the body moves out leaves the rest of its
/// parameter behind. A use in generated code would silence rustc's warning about a name that is not used
/// elsewhere; `unused` keeps the warning.
///
/// A future drops what it owns in the order in which its code first names it. So the order of the captures is that
/// of the drops without a lock: a function drops its last parameter first, and a block is such a future itself.
fn captures(plan: &mut Plan, args: &Args, target: &Target, in_key: &[String]) {
    let in_block;
    let (in_body, is_async_fn) = match &target.shape {
        Shape::AsyncFn | Shape::Blocking | Shape::Unknown => (&target.names, true),
        // A parameter that the block does not name was dropped when the function was called.
        Shape::Block(trailing) => {
            in_block = idents::names(trailing.block.block.to_token_stream());
            (&in_block, false)
        }
    };
    for param in &target.params {
        let name = param.name();
        let is_used = name.starts_with('_')
            || in_key.contains(&name)
            || in_body.contains_key(&param.ident.to_string());
        if is_used {
            plan.captures.push(param.clone());
            continue;
        }
        if !is_async_fn || matches!(param.binding, Binding::Borrowed | Binding::Unused) {
            continue;
        }
        let options = options_that_name(&name, args);
        if options.contains(&Opt::OnError) {
            // It is evaluated after the body.
            continue;
        }
        if options.is_empty() && param.binding == Binding::Plain {
            plan.unused.push(param.clone());
        } else {
            plan.captures.push(param.clone());
        }
    }
    if is_async_fn {
        plan.captures.reverse();
    } else {
        let rank = |param: &Param| in_body.get(&param.ident.to_string()).copied();
        plan.captures
            .sort_by_key(|param| rank(param).unwrap_or(usize::MAX));
    }
}

/// Returns the options whose expression may use a parameter, including the text of a `format!`.
fn options_that_name(param: &str, args: &Args) -> Vec<Opt> {
    let names = |given: &&Given| {
        let value = given.value.to_token_stream().to_string();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        given.opt != Opt::Key && value.split(|c| !is_part(c)).any(|word| word == param)
    };
    args.iter().filter(names).map(|given| given.opt).collect()
}
