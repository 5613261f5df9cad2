//! Arguments and function to a `Plan`, or every mistake at once.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;

use crate::args::{Args, Given, Opt};
use crate::duration::Role;
use crate::key;
use crate::message::{Fault, Faults};
use crate::output;
use crate::params::Param;
use crate::plan::{Key, Output, Patience, Plan, Setting};
use crate::target::{self, Shape, Target};
use crate::values;

/// Makes the plan; `None` if `faults` has grown, or had something in it before.
pub(crate) fn check(args: &Args, target: &Target, faults: &mut Faults) -> Option<Plan> {
    let mut plan = Plan {
        krate: None,
        key: Key::default(),
        settings: Vec::new(),
        manager: None,
        on_busy: None,
        on_error: None,
        lease: None,
        captures: Vec::new(),
        output: Output::Inferred,
    };
    let mut in_key = Vec::new();

    if !args.mentions(Opt::Key) {
        faults.at(0);
        faults.push(
            Fault::new("`#[distributed_lock]` needs a `key`")
                .help("for example `key = \"order:<id>\"`")
                .at(Span::call_site()),
        );
    }
    for given in args.iter() {
        faults.at(given.position);
        let value = &given.value;
        match given.opt {
            Opt::Key => {
                if let Some(resolved) = key::resolve(value, target, faults) {
                    plan.key = resolved.key;
                    in_key = resolved.used;
                }
            }
            Opt::Ttl => {
                let ttl = faults.keep(values::length(Role::Ttl, value));
                plan.settings.extend(ttl.map(Setting::Ttl));
            }
            Opt::MaxHold => {
                let max_hold = faults.keep(values::length(Role::MaxHold, value));
                plan.settings.extend(max_hold.map(Setting::MaxHold));
            }
            Opt::Wait => {
                let wait = faults.keep(values::patience(value));
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
            Opt::OnBusy => plan.on_busy = Some(value.clone()),
            Opt::OnError => plan.on_error = Some(value.clone()),
            Opt::Manager => plan.manager = Some(value.clone()),
            Opt::Crate => plan.krate = faults.keep(values::path(given)),
            Opt::Lease => plan.lease = faults.keep(lease(given, target)),
        }
    }
    contradictions(args, &plan, faults);

    faults.at_item();
    let handled = args.mentions(Opt::OnError);
    if let Some(output) = faults.keep(output::of(target, handled)) {
        plan.output = output;
    }
    plan.captures = captures(target, &in_key);
    faults.is_empty().then_some(plan)
}

/// The name of the lease, which must not be that of a parameter.
fn lease(given: &Given, target: &Target) -> syn::Result<Ident> {
    let lease = values::new_name(given)?;
    if target.params.iter().any(|param| lease == param.name()) {
        return Err(Fault::new(format!(
            "`lease = {lease}` would hide the parameter `{lease}`"
        ))
        .help("choose another name for the lease")
        .over(&given.value));
    }
    Ok(lease)
}

/// Pairs of options of which one makes the other pointless; the later one is pointed at.
fn contradictions(args: &Args, plan: &Plan, faults: &mut Faults) {
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

    if set(|setting| matches!(setting, Setting::Renew(false)))
        && set(|setting| matches!(setting, Setting::MaxHold(_)))
    {
        refuse(
            Opt::Renew,
            Opt::MaxHold,
            Fault::new("`max_hold` limits renewal, and `renew = false` turns it off")
                .help("keep one of the two; without renewal the lease ends after its `ttl`"),
        );
    }
    if plan.on_busy.is_some() && set(|setting| matches!(setting, Setting::Wait(Patience::Forever)))
    {
        refuse(
            Opt::OnBusy,
            Opt::Wait,
            Fault::new("`on_busy` is never used with `wait = forever`")
                .help("keep one of the two, or wait for a limited time: `wait = \"5s\"`"),
        );
    }
}

/// Which parameters the body's future must own from its start.
///
/// What it does not own drops after the release, and a field that the body moves out leaves the
/// rest of its parameter behind. Names that nothing uses are left to rustc's warning about them,
/// which a use by us would silence.
fn captures(target: &Target, in_key: &[String]) -> Vec<Param> {
    let body: TokenStream = match &target.shape {
        Shape::AsyncFn => target.body.clone(),
        Shape::Block(trailing) => trailing.block.block.to_token_stream(),
    };
    target
        .params
        .iter()
        .filter(|param| {
            let name = param.name();
            name.starts_with('_')
                || in_key.contains(&name)
                || target::mentions(body.clone(), &|ident| *ident == param.ident)
        })
        .cloned()
        .collect()
}
