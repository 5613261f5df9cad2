//! Replaces the metrics when the feature is off. It adds nothing to the program.

use std::time::Duration;

use super::values::{LeaseOrigin, RequestKind};
use crate::{
    answer::Renewal,
    clock::Moment,
    error::{StoreError, StoreErrorKind},
    mode::LockMode,
    state::Loss,
};

pub(crate) fn describe() {}

pub(super) fn refused(_template: Option<&'static str>, _mode: LockMode, _reason: &'static str) {}

pub(super) fn request_failed(_request: RequestKind, _kind: StoreErrorKind) {}

#[derive(Clone, Copy)]
pub(super) struct CallCounts;

#[allow(
    clippy::unused_self,
    reason = "it stands in for one that has something"
)]
impl CallCounts {
    pub(super) fn begin(_template: Option<&'static str>, _mode: LockMode) -> Self {
        Self
    }

    pub(super) fn origin(self, _origin: LeaseOrigin) {}
    pub(super) fn entered(self, _waited: Duration, _now: Moment) {}
    pub(super) fn refused(self, _reason: &'static str) {}
    pub(super) fn given_up(self) {}
    pub(super) fn left(self, _now: Moment) {}
    pub(super) fn lost(self, _loss: &Loss) {}
    pub(super) fn renewed(self, _answer: &Result<Renewal, StoreError>) {}
    pub(super) fn detached(self) {}
    pub(super) fn stalled(self) {}
    pub(super) fn unreleased(self, _why: &'static str) {}
}

pub(crate) struct SentRequest;

#[allow(
    clippy::unused_self,
    reason = "it stands in for one that has something"
)]
impl SentRequest {
    pub(crate) fn now(_request: RequestKind) -> Self {
        Self
    }

    pub(crate) fn answered(self) {}
}
