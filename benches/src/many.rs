//! Very many leases, waiters or keys in one process, and what they cost it.

mod distinct;
mod held;
mod waiters;

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::arguments::{Settings, What};
use crate::usage::Usage;

pub(crate) use distinct::Distinct;
pub(crate) use held::Held;
pub(crate) use waiters::Waiters;

/// The line about such a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub(crate) enum Report {
    Held(Held),
    Waiters(Waiters),
    Distinct(Distinct),
}

pub(crate) async fn run(settings: &Settings) -> Result<(), Failure> {
    let report = match settings.what {
        What::Held => Report::Held(held::run(settings).await?),
        What::Waiters => Report::Waiters(waiters::run(settings).await?),
        What::Distinct => Report::Distinct(distinct::run(settings).await?),
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// The growth of memory for each of `number` things.
fn bytes_each(before: Usage, after: Usage, number: u32) -> u64 {
    after.resident.saturating_sub(before.resident) / u64::from(number.max(1))
}
