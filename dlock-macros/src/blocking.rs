//! The options of a plain function: its thread cannot be cancelled, and its call cannot be dropped.

use crate::args::{Args, Opt};
use crate::message::{Fault, Faults};
use crate::plan::Loss;
use crate::target::Target;
use crate::values;

/// Reports options that a plain function cannot have, and the option that it requires.
pub(crate) fn check(args: &Args, target: &Target, faults: &mut Faults) {
    if let Some(given) = args.get(Opt::OnCancel) {
        faults.at(given.position);
        faults.push(
            Fault::new("`on_cancel` is for futures: a call of a plain `fn` cannot be dropped before its end")
                .help("leave it out, or write `async fn`")
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
            faults.push(
                unstoppable()
                    .note("if it was to be an `async fn`: write `async`, or, if another attribute such as `#[tokio::main]` took it away, put `#[distributed_lock]` above that")
                    .at(target.sig.fn_token.span),
            );
        }
        _ => {}
    }
}

/// A plain function cannot have the default of all functions, and a different silent default would be
/// mistaken for it.
fn unstoppable() -> Fault {
    Fault::new("the body of a plain `fn` cannot be stopped when its lease is lost")
        .help("write `on_lost = finish`: the body runs to its end, can check `lease.is_lost()`, and the call returns `LockError::Lost`")
}
