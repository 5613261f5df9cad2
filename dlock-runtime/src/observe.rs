//! The spans and events of locks, and their field names, in one place.
//!
//! Every event goes to the target `dlock` and names its `key`. Those of a store's connection are
//! the store's.

use std::time::Duration;

use tracing::{Span, debug, field, info, info_span, trace, warn};

use crate::{
    error::LockError,
    fence::FencingToken,
    key::{LockKey, LockKeys},
    options::Wait,
    section::Section,
    site::LockSite,
    state::Loss,
    store::StoreError,
};

const TARGET: &str = "dlock";

/// The span of one section: from the first question to the end of the body.
pub(crate) fn span(key: &LockKey, site: Option<&LockSite>) -> Span {
    let span = info_span!(
        target: TARGET,
        "lock",
        %key,
        keys = field::Empty,
        site = field::Empty,
        template = field::Empty,
        token = field::Empty,
        waited_ms = field::Empty,
    );
    if let Some(site) = site {
        span.record("site", field::display(site));
        span.record("template", site.template());
    }
    span
}

/// The same for a section of several keys, all of which stand in `keys`.
pub(crate) fn span_of_several(keys: &LockKeys, site: Option<&LockSite>) -> Span {
    let span = span(keys.first(), site);
    span.record("keys", field::display(keys));
    span
}

/// The section has all it needs; its token is that of its first key.
pub(crate) fn entered(span: &Span, token: FencingToken, waited: Duration) {
    span.record("token", token.to_i64());
    span.record("waited_ms", milliseconds(waited));
}

pub(crate) fn acquired(section: &Section, token: FencingToken, waited: Duration) {
    let (key, token, waited_ms) = (section.key(), token.to_i64(), milliseconds(waited));
    debug!(target: TARGET, parent: &section.span, %key, token, waited_ms, "acquired");
}

/// A lease of several was lost before the others were there.
pub(crate) fn starts_over(span: &Span, error: &LockError) {
    let key = error.key();
    debug!(target: TARGET, parent: span, %key, %error, "starts over");
}

pub(crate) fn refused(span: &Span, wait: Wait, error: &LockError) {
    let key = error.key();
    let LockError::Busy { waited, holder, .. } = error else {
        warn!(target: TARGET, parent: span, %key, %error, "not acquired");
        return;
    };
    let waited_ms = milliseconds(*waited);
    if wait == Wait::Never {
        // Somebody who asks now and then finds it held most of the time.
        debug!(target: TARGET, parent: span, %key, %holder, "busy");
    } else {
        info!(target: TARGET, parent: span, %key, waited_ms, %holder, "busy");
    }
}

/// Single failures are details; the connection's own events say once what concerns everybody.
pub(crate) fn request_failed(section: &Section, request: &str, error: &StoreError) {
    let key = section.key();
    debug!(target: TARGET, parent: &section.span, %key, request, %error, "request failed");
}

pub(crate) fn detached(section: &Section) {
    let key = section.key();
    debug!(target: TARGET, parent: &section.span, %key, "caller gone: the section goes on");
}

pub(crate) fn kept(section: &Section, rest: Duration) {
    let (key, rest_ms) = (section.key(), milliseconds(rest));
    debug!(target: TARGET, parent: &section.span, %key, rest_ms, "kept for its min_hold");
}

pub(crate) fn release_given_up(section: &Section) {
    let key = section.key();
    warn!(target: TARGET, parent: &section.span, %key, "not released: its TTL has ended by now");
}

pub(crate) fn lost(section: &Section, loss: &Loss) {
    let (key, cause, held_for) = (section.key(), &loss.cause, loss.held_for);
    warn!(target: TARGET, parent: &section.span, %key, %cause, ?held_for, "lease lost");
}

pub(crate) fn cut_short(section: &Section) {
    let key = section.key();
    warn!(target: TARGET, parent: &section.span, %key, "lease given up by the manager's shutdown");
}

pub(crate) fn handed_over(section: &Section) {
    let key = section.key();
    trace!(target: TARGET, parent: &section.span, %key, "handed over to the next in this process");
}

pub(crate) fn lost_but_finished(section: &Section, error: &LockError) {
    let key = section.key();
    warn!(target: TARGET, parent: &section.span, %key, %error, "body finished without its lease");
}

pub(crate) fn abandoned(section: &Section) {
    let key = section.key();
    warn!(
        target: TARGET,
        parent: &section.span,
        %key,
        "not released: its runtime ended first, so it stays until its TTL; call `shutdown` before",
    );
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
