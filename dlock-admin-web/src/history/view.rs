//! The history of one lock as a document.

use std::sync::Arc;

use dlock_admin::view::{mode_name, token};
use dlock_runtime::store::OwnerId;
use serde::Serialize;

use super::{
    End, History, WINDOW, What,
    difference::{begin, lease},
    identity::LeaseId,
};
use crate::moment;

/// The number of leases and of waits that are shown, the latest ones.
const MOST: usize = 200;

/// The past of one lock.
#[derive(Debug, Serialize)]
pub(crate) struct HistoryView {
    from: String,
    to: String,
    holds: Vec<HoldView>,
    waits: Vec<WaitView>,
    gaps: Vec<GapView>,
}

#[derive(Debug, Serialize)]
struct HoldView {
    handle: Option<String>,
    label: Option<String>,
    token: Option<String>,
    from: String,
    to: Option<String>,
    end: Option<&'static str>,
    /// The client that has ended it by force.
    by: Option<String>,
    renewed: Vec<String>,
}

#[derive(Debug, Serialize)]
struct WaitView {
    handle: Option<String>,
    label: Option<String>,
    mode: &'static str,
    from: String,
    to: Option<String>,
    end: Option<&'static str>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct GapView {
    from: String,
    to: String,
}

/// A lease, with the time of its end if it has ended.
struct PastLease {
    lease: LeaseId,
    label: Option<Arc<str>>,
    from_ms: u64,
    to: Option<(u64, End)>,
    by: Option<Arc<str>>,
}

struct PastWait {
    owner: Option<OwnerId>,
    label: Option<Arc<str>>,
    mode: &'static str,
    from_ms: u64,
    to: Option<(u64, End)>,
}

impl History {
    /// Returns what the last minutes before `now_ms` have shown of a lock. `is_away`: the store is unreachable.
    pub(crate) fn view(&self, key: &str, now_ms: u64, is_away: bool) -> HistoryView {
        let from_ms = now_ms.saturating_sub(WINDOW);
        let (mut holds, mut waits) = self.current(key, is_away);
        let mut grants = Vec::new();
        let mut gaps = self.common_gaps(from_ms, now_ms, is_away);
        let lock = self.hash(key);
        let mut renewed = self.renewals.since(lock, from_ms);
        for event in self.events.iter().filter(|event| event.lock == lock) {
            let at_ms = event.at_ms;
            match &event.what {
                What::Held {
                    lease,
                    label,
                    from_ms,
                    end,
                    by,
                } => holds.push(PastLease {
                    lease: *lease,
                    label: label.clone(),
                    from_ms: *from_ms,
                    to: Some((at_ms, *end)),
                    by: by.clone(),
                }),
                What::Granted(owner, fence) => grants.push((*owner, *fence, at_ms)),
                What::Waited {
                    owner,
                    label,
                    mode,
                    from_ms,
                    end,
                } => waits.push(PastWait {
                    owner: *owner,
                    label: label.clone(),
                    mode: mode_name(*mode).0,
                    from_ms: *from_ms,
                    to: Some((at_ms, *end)),
                }),
                // The picture at that time has shown the lock again.
                What::Skipped(since_ms) => gaps.push((*since_ms, at_ms)),
            }
        }
        if let Some(skipped) = self.granted.get(&lock).and_then(|it| it.skipped_ms) {
            gaps.push((skipped, now_ms));
        }
        add_grants(&mut holds, &grants);
        // Leases and waits that ended before are not shown.
        holds.retain(|hold| hold.to.is_none_or(|(to, _)| to >= from_ms));
        waits.retain(|wait| wait.to.is_none_or(|(to, _)| to >= from_ms));
        holds.sort_by_key(|hold| (hold.from_ms, hold.lease.fence));
        waits.sort_by_key(|wait| wait.from_ms);
        holds.drain(..holds.len().saturating_sub(MOST));
        waits.drain(..waits.len().saturating_sub(MOST));
        let of_hold = |hold: PastLease| {
            let renewed = renewed.remove(&hold.lease).unwrap_or_default();
            HoldView {
                handle: hold.lease.owner.map(|owner| owner.handle().to_string()),
                label: hold.label.map(|label| label.to_string()),
                token: token(hold.lease.fence),
                from: moment::text(hold.from_ms),
                to: hold.to.map(|(to, _)| moment::text(to)),
                end: hold.to.map(|(_, end)| name(end)),
                by: hold.by.map(|by| by.to_string()),
                renewed: renewed.into_iter().map(moment::text).collect(),
            }
        };
        let of_wait = |wait: PastWait| WaitView {
            handle: wait.owner.map(|owner| owner.handle().to_string()),
            label: wait.label.map(|label| label.to_string()),
            mode: wait.mode,
            from: moment::text(wait.from_ms),
            to: wait.to.map(|(to, _)| moment::text(to)),
            end: wait.to.map(|(_, end)| name(end)),
        };
        HistoryView {
            from: moment::text(from_ms),
            to: moment::text(now_ms),
            holds: holds.into_iter().map(of_hold).collect(),
            waits: waits.into_iter().map(of_wait).collect(),
            gaps: merged(gaps, from_ms)
                .into_iter()
                .map(|(from, to)| GapView {
                    from: moment::text(from),
                    to: moment::text(to),
                })
                .collect(),
        }
    }

    /// Returns the holders and waiters of the latest picture. Their ends are not known while the store is unreachable.
    fn current(&self, key: &str, is_away: bool) -> (Vec<PastLease>, Vec<PastWait>) {
        let latest = self.latest.as_ref();
        let Some((latest, lock)) = latest.and_then(|it| Some((it, it.named(key)?))) else {
            return (Vec::new(), Vec::new());
        };
        let to = is_away.then_some((latest.taken_ms, End::Unknown));
        let holds = lock.holders().map(|holder| PastLease {
            lease: lease(holder),
            label: holder.label().map(Into::into),
            from_ms: begin(lock, holder),
            to,
            by: None,
        });
        let waits = lock.waiters().map(|waiter| PastWait {
            owner: waiter.owner(),
            label: waiter.label().map(Into::into),
            mode: mode_name(waiter.mode()).0,
            from_ms: waiter.entered_ms(),
            to,
        });
        (holds.collect(), waits.collect())
    }

    /// Returns the times for which nothing is known of any lock.
    fn common_gaps(&self, from_ms: u64, now_ms: u64, is_away: bool) -> Vec<(u64, u64)> {
        let mut gaps: Vec<_> = self.gaps.iter().copied().collect();
        let began = self.began_ms.unwrap_or(now_ms);
        gaps.push((from_ms, began.max(self.forgotten_ms)));
        if let Some(since) = self.unheard_ms {
            gaps.push((since, now_ms));
        }
        if is_away && let Some(latest) = &self.latest {
            gaps.push((latest.taken_ms, now_ms));
        }
        gaps
    }
}

/// Adds the leases that no picture shows: each ends when the next one begins, by their fences.
fn add_grants(holds: &mut Vec<PastLease>, grants: &[(OwnerId, u64, u64)]) {
    for (place, (owner, fence, at_ms)) in grants.iter().enumerate() {
        let same =
            |hold: &PastLease| hold.lease.owner == Some(*owner) && hold.lease.fence == *fence;
        if holds.iter().any(same) {
            continue;
        }
        let next_grant = grants[place + 1..].iter().find(|it| it.1 > *fence);
        let next_grant = next_grant.map(|it| (it.2, End::Granted));
        let later = holds.iter().filter(|hold| hold.lease.fence > *fence);
        let next_hold = later.map(|hold| hold.from_ms).min();
        let to = match (next_grant, next_hold) {
            (Some((grant, _)), Some(hold)) if hold < grant => (hold, End::Unknown),
            (Some(grant), _) => grant,
            (None, Some(hold)) => (hold, End::Unknown),
            // No picture has shown it, so it has ended already, or the next picture will.
            (None, None) => (*at_ms, End::Unknown),
        };
        holds.push(PastLease {
            lease: LeaseId {
                owner: Some(*owner),
                fence: *fence,
                mark: 0,
            },
            label: None,
            from_ms: *at_ms,
            to: Some((to.0.max(*at_ms), to.1)),
            by: None,
        });
    }
}

/// Returns the gaps after `from_ms` in order, without those that lie in others.
fn merged(mut gaps: Vec<(u64, u64)>, from_ms: u64) -> Vec<(u64, u64)> {
    gaps.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from, to) in gaps {
        let from = from.max(from_ms);
        match merged.last_mut() {
            _ if to <= from => {}
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

fn name(end: End) -> &'static str {
    match end {
        End::Released => "released",
        End::Granted => "granted",
        End::Expired => "expired",
        End::Forced => "forced",
        End::Left => "left",
        End::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_merged() {
        let gaps = vec![(50, 60), (0, 10), (5, 20), (20, 30), (55, 58), (70, 70)];
        assert_eq!(merged(gaps.clone(), 0), [(0, 30), (50, 60)]);
        assert_eq!(merged(gaps, 25), [(25, 30), (50, 60)]);
    }
}
