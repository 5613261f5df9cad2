//! The options of a plain function: its thread cannot be cancelled, and its call cannot be dropped.

use crate::args::{Args, Opt};
use crate::message::{Fault, Faults};
use crate::plan::Loss;
use crate::target::{self, Target};
use crate::values;

/// Reports options that a plain function cannot have, and a missing `on_lost = finish`.
pub(crate) fn check(args: &Args, target: &Target, faults: &mut Faults) {
    if let Some(given) = args.get(Opt::OnCancel) {
        faults.at(given.position);
        faults.push(
            Fault::new("`on_cancel` is not allowed on a plain `fn`")
                .help("write `async fn`, or remove `on_cancel`: a call of a plain `fn` cannot be dropped")
                .at(given.name.span()),
        );
    }
    match args.get(Opt::OnLost) {
        Some(given) if matches!(values::loss(&given.value), Ok(Loss::Stop)) => {
            faults.at(given.position);
            faults.push(unstoppable().over(&given.value));
        }
        None if !args.mentions(Opt::OnLost) => {
            faults.at_item();
            // The order of the attributes comes first where it may be the mistake: `on_lost = finish` compiles, and a
            // body that was written to be stopped no longer is.
            let fault = if target.names.contains_key(target::ASYNC) {
                Fault::new(UNSTOPPABLE)
                    .help("if another attribute such as `#[tokio::main]` has removed the `async`, put `#[distributed_lock]` above that attribute")
                    .help(format!("otherwise {FINISH}"))
            } else {
                unstoppable()
                    .note("for an `async fn`, add `async`; if another attribute such as `#[tokio::main]` removed it, put `#[distributed_lock]` above that attribute")
            };
            faults.push(fault.at(target.sig.fn_token.span));
        }
        _ => {}
    }
}

/// The default of `on_lost` does not work for a plain function, and another default would be mistaken for it.
fn unstoppable() -> Fault {
    Fault::new(UNSTOPPABLE).help(FINISH)
}

const UNSTOPPABLE: &str = "the body of a plain `fn` cannot be stopped if its lease is lost";
const FINISH: &str = "write `on_lost = finish`: the body runs to its end and can check `lease.is_lost()`, and the call returns `LockError::Lost`";
