//! The spans and events dlock emits, and their field names, in one place.
//!
//! Every event goes to the target `dlock` and names its `key`.

use std::time::Duration;

use tracing::{Span, debug, field, info, info_span, warn};

use crate::{
    error::LockError, fence::FencingToken, key::LockKey, owner::OwnerId, section::Section,
    site::Site, state::Loss, store::StoreError,
};

const TARGET: &str = "dlock";

/// The span of one section: from the first question to the end of the body.
pub(crate) fn span(key: &LockKey, site: Option<&Site>) -> Span {
    let span = info_span!(
        target: TARGET,
        "lock",
        %key,
        site = field::Empty,
        template = field::Empty,
        fence = field::Empty,
        waited = field::Empty,
    );
    if let Some(site) = site {
        span.record("site", field::display(site));
        span.record("template", site.template);
    }
    span
}

pub(crate) fn acquired(section: &Section, token: FencingToken, waited: Duration) {
    let fence = token.to_i64();
    section.span.record("fence", fence);
    section.span.record("waited", field::debug(waited));
    debug!(target: TARGET, parent: &section.span, key = %section.key(), fence, "acquired");
}

pub(crate) fn refused(section: &Section, error: &LockError) {
    let key = section.key();
    if error.is_busy() {
        info!(target: TARGET, parent: &section.span, %key, "busy");
    } else {
        warn!(target: TARGET, parent: &section.span, %key, %error, "not acquired");
    }
}

pub(crate) fn question_failed(section: &Section, error: &StoreError) {
    debug!(target: TARGET, parent: &section.span, key = %section.key(), %error, "question failed");
}

pub(crate) fn renewal_failed(section: &Section, error: &StoreError) {
    warn!(target: TARGET, parent: &section.span, key = %section.key(), %error, "renewal failed");
}

pub(crate) fn lost(section: &Section, loss: &Loss) {
    let (key, cause, held_for) = (section.key(), &loss.cause, loss.held_for);
    warn!(target: TARGET, parent: &section.span, %key, %cause, ?held_for, "lease lost");
}

pub(crate) fn cut_short(key: &LockKey, owner: OwnerId) {
    warn!(target: TARGET, %key, %owner, "lease given up by the manager's shutdown");
}

pub(crate) fn lost_but_finished(section: &Section, error: &LockError) {
    let key = section.key();
    warn!(target: TARGET, parent: &section.span, %key, %error, "body finished without its lease");
}

pub(crate) fn release_failed(section: &Section, error: &StoreError) {
    warn!(target: TARGET, parent: &section.span, key = %section.key(), %error, "release failed");
}

pub(crate) fn abandoned(section: &Section) {
    let key = section.key();
    warn!(target: TARGET, parent: &section.span, %key, "no runtime left to release: its TTL must end");
}
