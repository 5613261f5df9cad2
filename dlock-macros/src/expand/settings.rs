//! The options of a lock as method calls on `Options`.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

use super::spans::{private, site, site_at};
use crate::duration::Role;
use crate::plan::{Length, Loss, Mode, Patience, Permits, Plan, Setting};

const PERMITS: &str = "permits";

/// Returns the calls that set options: those known at compile time, or those computed at each call.
pub(super) fn calls(plan: &Plan, fixed: bool) -> TokenStream {
    let private = private(plan.krate.as_ref(), site());
    plan.settings
        .iter()
        .filter(|setting| setting.is_fixed() == fixed)
        .map(|setting| match setting {
            Setting::Length(role, length) => {
                let option = Ident::new(role.name(), site());
                let length = self::length(plan, *role, length);
                quote_spanned!(site()=> .#option(#length))
            }
            Setting::Renew(renew) => quote_spanned!(site()=> .renew(#renew)),
            Setting::OnLost(loss) => {
                let loss = match loss {
                    Loss::Stop => quote_spanned!(site()=> Stop),
                    Loss::Finish => quote_spanned!(site()=> Finish),
                };
                quote_spanned!(site()=> .on_lost(#private::OnLost::#loss))
            }
            Setting::Wait(patience) => {
                let wait = self::patience(plan, patience);
                quote_spanned!(site()=> .wait(#wait))
            }
            Setting::Mode(mode) => {
                let mode = match mode {
                    Mode::Shared => quote_spanned!(site()=> Shared),
                    Mode::Exclusive => quote_spanned!(site()=> Exclusive),
                };
                quote_spanned!(site()=> .mode(#private::LockMode::#mode))
            }
            Setting::Permits(permits) => {
                let permits = self::permits(plan, permits);
                quote_spanned!(site()=> .permits(#permits))
            }
        })
        .collect()
}

/// Returns the names of the options that each call computes.
pub(super) fn computed(plan: &Plan) -> impl Iterator<Item = &'static str> {
    let computed = plan.settings.iter().filter(|setting| !setting.is_fixed());
    let enabled = plan.enabled.as_ref().map(|_| "enabled");
    computed.map(Setting::name).chain(enabled)
}

fn length(plan: &Plan, role: Role, length: &Length) -> TokenStream {
    match length {
        Length::Fixed(duration) => millis(*duration),
        // Evaluated with the static, so the compiler reports a bad constant here.
        Length::Constant(path) => checked(plan, role.name(), path),
        Length::Associated(path) => checked_at_use(plan, role.name(), path),
        Length::Computed(value) => value.to_token_stream(),
    }
}

fn permits(plan: &Plan, permits: &Permits) -> TokenStream {
    match permits {
        Permits::Fixed(number) => quote_spanned!(site()=> #number),
        Permits::Constant(path) => checked(plan, PERMITS, path),
        Permits::Associated(path) => checked_at_use(plan, PERMITS, path),
        Permits::Computed(value) => value.to_token_stream(),
    }
}

/// Returns a constant as the argument of the function that checks this option.
fn checked(plan: &Plan, option: &str, path: &Expr) -> TokenStream {
    let place = site_at(path.span());
    let private = private(plan.krate.as_ref(), place);
    let check = Ident::new(&format!("check_{option}"), place);
    quote_spanned!(place=> #private::#check(#path))
}

fn checked_at_use(plan: &Plan, option: &str, path: &Expr) -> TokenStream {
    let checked = checked(plan, option, path);
    quote_spanned!(site_at(path.span())=> const { #checked })
}

fn patience(plan: &Plan, patience: &Patience) -> TokenStream {
    let private = private(plan.krate.as_ref(), site());
    match patience {
        Patience::Never => quote_spanned!(site()=> #private::Wait::Never),
        Patience::Forever => quote_spanned!(site()=> #private::Wait::Forever),
        Patience::For(duration) => {
            let duration = millis(*duration);
            quote_spanned!(site()=> #private::Wait::For(#duration))
        }
        Patience::Computed(value) => quote_spanned! {site_at(value.span())=>
            ::core::convert::Into::<#private::Wait>::into(#value)
        },
    }
}

fn millis(duration: std::time::Duration) -> TokenStream {
    let millis = u64::try_from(duration.as_millis()).expect("longer literals are refused");
    quote_spanned!(site()=> ::core::time::Duration::from_millis(#millis))
}

impl Setting {
    fn name(&self) -> &'static str {
        match self {
            Setting::Length(role, _) => role.name(),
            Setting::Wait(_) => Role::Wait.name(),
            Setting::Renew(_) => "renew",
            Setting::OnLost(_) => "on_lost",
            Setting::Mode(_) => "mode",
            Setting::Permits(_) => PERMITS,
        }
    }

    fn is_fixed(&self) -> bool {
        match self {
            Setting::Length(_, length) => {
                matches!(length, Length::Fixed(_) | Length::Constant(_))
            }
            Setting::Wait(patience) => !matches!(patience, Patience::Computed(_)),
            Setting::Permits(permits) => {
                matches!(permits, Permits::Fixed(_) | Permits::Constant(_))
            }
            Setting::Renew(_) | Setting::OnLost(_) | Setting::Mode(_) => true,
        }
    }
}
