//! Sections with a smaller token than one before them, because a store has lost data or brought it back.

use std::{ops::RangeInclusive, time::Duration};

use crate::{History, Promise, Section, Violation};

/// For how long after the last request of a lease a call of the same process may come and begin with it, without a
/// request of its own.
const WITHOUT_REQUEST: Duration = Duration::from_millis(10);

/// The tokens of one exclusive lease differ in so many bits, the lowest.
const BITS_OF_ONE_LEASE: u32 = 12;

/// A time in which a store may have returned to an earlier state, or had two masters.
///
/// It may have brought back sections that share a key. Others join them, and have their token. It can be smaller than
/// that of a section which the store has forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// What began before this moment is not forgotten.
    pub from: Duration,
    /// What began after this moment is not forgotten.
    pub until: Duration,
    /// For how long a section can be joined after its end.
    pub lasts: Duration,
}

/// A lease of a shared key that nobody may have seen: its call ended before a section began, but the store may have
/// granted it, and others joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// The lock.
    pub key: String,
    /// What its token may have been.
    pub tokens: RangeInclusive<i64>,
    /// When its call ended.
    pub left: Duration,
}

impl History {
    /// Whether a section may have begun without a request of its own, with a lease that its process had before and that
    /// the store forgot in the last moment: `before` began in it, too.
    fn may_know_no_better(&self, before: &Section, section: &Section) -> bool {
        let lease = |it: &Section| it.token >> BITS_OF_ONE_LEASE;
        let moment = |it: &Section| (it.entered, it.token, it.task);
        let had_it = |other: &Section| {
            (&other.key, other.process, lease(other))
                == (&section.key, section.process, lease(section))
                && moment(other) < moment(section)
        };
        section.asked <= before.entered + WITHOUT_REQUEST
            && lease(before) != lease(section)
            && self.sections.iter().any(had_it)
    }

    /// Removes the smaller token of a section that may know no better, or that is shared and may have joined another one
    /// with the same token, if every section with a greater token before it may be forgotten.
    ///
    /// The other one was there before it, or nothing says that it came after the greater token: of two that are granted
    /// together, the one that asked later may begin first.
    pub(crate) fn excuse_smaller_tokens(
        &self,
        promise: &impl Fn(Duration) -> Promise,
        returns: &[Return],
        found: &mut Vec<Violation>,
    ) {
        let is_before = |before: &Section, section: &Section| {
            let until = match promise(section.entered) {
                Promise::Exclusive => section.entered,
                _ => section.asked,
            };
            before.key == section.key && before.entered < until && before.token > section.token
        };
        let joins = |before: &Section, section: &Section, lasts: Duration| {
            let is_seen = self.sections.iter().any(|other| {
                other.mode.is_shared()
                    && (&other.key, other.token) == (&section.key, section.token)
                    && (other.entered < section.entered || !is_before(before, other))
                    && section.entered <= other.left + lasts
            });
            is_seen
                || self.unseen.iter().any(|other| {
                    other.key == section.key
                        && other.tokens.contains(&section.token)
                        && section.entered <= other.left + lasts
                })
        };
        let is_excused = |before: &Section, section: &Section| {
            let is_ordered = promise(section.entered) == Promise::Ordered;
            if is_ordered && self.may_know_no_better(before, section) {
                return true;
            }
            let is_forgotten =
                |it: &&Return| it.from <= before.entered && before.entered <= it.until;
            let mut returns = returns.iter().filter(is_forgotten);
            section.mode.is_shared() && returns.any(|it| joins(before, section, it.lasts))
        };
        found.retain_mut(|violation| {
            let Violation::TokenNotGreater(before, section) = violation else {
                return true;
            };
            if !is_excused(before, section) {
                return true;
            }
            let mut others = self.sections.iter();
            let other = others.find(|it| is_before(it, section) && !is_excused(it, section));
            other.is_some_and(|other| {
                *before = other.clone();
                true
            })
        });
    }
}
