//! Messages over a connection, and their fate on the way.

use std::time::Duration;

use dlock::{
    StoreError,
    store::{AcquireOutcome, OwnerId, Raised, Released, RenewRequest, Renewal},
};
use tokio::{sync::oneshot, time::Instant};

use crate::server::Question;

pub(super) struct Message {
    pub(super) command: Command,
    /// When it is there.
    pub(super) at: Instant,
    pub(super) fate: Fate,
    pub(super) reply: Option<oneshot::Sender<Reply>>,
}

pub(super) enum Reply {
    Answer(Result<Answer, StoreError>),
    /// There will be none.
    Silence,
}

#[derive(Clone, Debug)]
pub(super) enum Command {
    Acquire(Question),
    Renew(Vec<Renew>),
    Release(String, OwnerId),
    Raise(String, OwnerId, [u64; 2]),
}

#[derive(Clone, Debug)]
pub(super) struct Renew {
    pub(super) key: String,
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    pub(super) label: String,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Acquired(AcquireOutcome),
    Renewed(Vec<Renewal>),
    Released(Released),
    Raised(Raised),
}

/// The fate of a request.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// It is carried out, and the answer takes so long.
    Answered(Duration),
    /// The same, and it arrives a second time.
    Doubled(Duration),
    /// It is lost on the way, with or without a word.
    Lost { told: bool },
    /// It is carried out, and the answer is lost.
    AnswerLost { told: bool },
    /// The server refuses it, perhaps after it has carried it out.
    Refused { error: StoreError, done: bool },
}

impl Fate {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::Doubled(_) => "doubled",
            Self::Lost { told: true } => "lost",
            Self::Lost { told: false } => "swallowed",
            Self::AnswerLost { told: true } => "answer lost",
            Self::AnswerLost { told: false } => "answer swallowed",
            Self::Refused { done: false, .. } => "refused",
            Self::Refused { done: true, .. } => "refused but done",
        }
    }
}

impl Renew {
    pub(super) fn of(request: &RenewRequest<'_>) -> Self {
        Self {
            key: request.key.as_str().to_owned(),
            owner: request.owner,
            ttl: request.ttl,
            label: request.label.to_owned(),
        }
    }
}
