//! Tests the decisions about an attempt, one rule at a time, and under any order of events.

mod beside;
mod desk;
mod doubts;
mod handed;
mod holds;
mod late;
mod many;
mod orders;
mod pauses;
mod shared;
mod traces;
mod turns;
mod untaken;
mod waits;
mod world;

use std::time::Duration;

use tokio::time::Instant;

use self::desk::{Desk, NotRandom, busy, context, failed, granted, waits};
use super::*;
use crate::{
    answer::{ALIVE, AcquireOutcome, Holder, Released, Renewal},
    attempt::AttemptId,
    clock::Moment,
    error::{LostCause, StoreError, StoreErrorKind},
    fence::FencingToken,
    mode::LockMode,
    options::{Timing, Wait},
    owner::{ClientId, OwnerId, Owners},
    random::{Random, SystemRandom},
};

const TTL: Duration = Duration::from_secs(30);
const DRIFT: Duration = Duration::from_millis(302);
/// The validity of a confirmed lease.
const TRUSTED: Duration = TTL.saturating_sub(DRIFT);
const SECOND: Duration = Duration::from_secs(1);
