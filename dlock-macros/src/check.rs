//! Turns arguments and function into a `Plan`, or reports every mistake at once.

use proc_macro2::Span;
use syn::Expr;
use syn::spanned::Spanned;

use crate::args::{Args, Opt};
use crate::blocking;
use crate::captures;
use crate::duration::Role;
use crate::key;
use crate::lease;
use crate::message::{Fault, Faults};
use crate::modes::{self, Sharing};
use crate::output;
use crate::owned;
use crate::plan::{Busy, Cancel, Length, Mode, Output, Patience, Plan, Setting};
use crate::roots;
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
            Opt::Lease => plan.lease = faults.keep(lease::name(given, target)),
        }
    }
    if matches!(plan.on_busy, Some(Busy::Skip(_))) && !args.mentions(Opt::Wait) {
        // A call that is skipped when the lock is busy has no reason to wait.
        plan.settings.push(Setting::Wait(Patience::Never));
    }
    contradictions(args, &plan, sharing, faults);
    roots::check(args, target, faults);
    if plan.blocking {
        blocking::check(args, target, faults);
    }

    faults.at_item();
    lease::check(args, &plan, target, faults);
    if plan.detach.is_some() {
        for error in owned::faults(&target.sig) {
            faults.push(error);
        }
    }
    let handled = args.mentions(Opt::OnError);
    if let Some(output) = faults.keep(output::of(target, handled)) {
        plan.output = output;
    }
    if let (Some(given), Output::Known(ty)) = (args.get(Opt::OnBusy), &plan.output)
        && let Some(error) = values::quoted_skip(&given.value, ty)
    {
        faults.at(given.position);
        faults.push(error);
    }
    captures::find(&mut plan, args, target, &in_key);
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
