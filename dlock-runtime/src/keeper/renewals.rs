//! Sends the renewals that are due: in groups, few at a time, those with the earliest deadline first.
//!
//! All at once would be worse than late. A process that is short of processor time, or a server that has just
//! stood still, would get all answers after their limit, ask for all of them again, and get nowhere although
//! the server has renewed every lease. So few requests are under way; one without an answer for the
//! usual time makes way for the next, and its answer still counts, from when it was sent, for as long as its leases
//! allow to wait.
//!
//! A runtime that shuts down drops its tasks, at any await and even before their first poll. So a request is a
//! value, made before its task is spawned, whose drop says that it got no answer.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    pin::pin,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{Instant, timeout},
};

use super::tend;
use crate::{
    background::let_others_take_it,
    lane,
    manager::Shared,
    observe::{self, Request},
    owner::OwnerId,
    section::Section,
    state::Event,
    store::{DynStore, RenewBatch, Renewal, StoreError, StoreErrorKind},
    sync::{Mutex, MutexGuard},
};

/// More renewals than this do not go in one request: others wait for the server meanwhile.
const MOST_IN_A_GROUP: usize = 256;

/// More groups than this are not under way, but for those that have waited long for their answer.
const MOST_UNDER_WAY: usize = 4;

/// A lease that has to be renewed.
pub(super) struct Due {
    pub(super) section: Arc<Section>,
    pub(super) owner: OwnerId,
    /// How long to wait for the answer.
    pub(super) limit: Duration,
    /// When the lease ends without it.
    pub(super) deadline: Instant,
}

impl Due {
    /// How long to wait for an answer to what is sent at `now`.
    fn limit_at(&self, now: Instant) -> Duration {
        self.limit.min(self.deadline.saturating_duration_since(now))
    }
}

/// The renewals of a manager that are due or under way.
#[derive(Default)]
pub(super) struct Renewals(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    /// By deadline.
    waiting: BTreeMap<(Instant, OwnerId), Due>,
    under_way: usize,
    /// A call of `serve` sends them, and will see what comes meanwhile.
    is_served: bool,
}

impl Renewals {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The next group to be sent at `now`.
    fn next(&mut self, now: Instant) -> Option<Vec<Due>> {
        if self.under_way >= MOST_UNDER_WAY {
            return None;
        }
        let (_, first) = self.waiting.pop_first()?;
        self.under_way += 1;
        // A lease that is about to end must not cut short the time of the others.
        let longest = first.limit_at(now).saturating_mul(2);
        let mut group = vec![first];
        while group.len() < MOST_IN_A_GROUP
            && let Some(next) = self.waiting.first_entry()
            && next.get().limit_at(now) <= longest
        {
            group.push(next.remove());
        }
        Some(group)
    }
}

/// Sends these as soon as may be.
pub(super) fn renew(shared: &Arc<Shared>, due: Vec<Due>) {
    if due.is_empty() {
        return;
    }
    let mut replaced = Vec::new();
    let mut queue = shared.keeper.renewals.queue();
    for due in due {
        // The last handle to a section is not dropped under the mutex.
        replaced.extend(queue.waiting.insert((due.deadline, due.owner), due));
    }
    drop(queue);
    drop(replaced);
    serve(shared);
}

/// Sends what may be sent now.
fn serve(shared: &Arc<Shared>) {
    /// While it lives, no other call sends: a group that ends while it is being sent would else send the next
    /// from within its own drop, and that one the next.
    struct Serving<'a>(&'a Renewals);

    impl Drop for Serving<'_> {
        fn drop(&mut self) {
            self.0.queue().is_served = false;
        }
    }

    let renewals = &shared.keeper.renewals;
    if mem::replace(&mut renewals.queue().is_served, true) {
        return;
    }
    let serving = Serving(renewals);
    loop {
        let mut queue = renewals.queue();
        let Some(group) = queue.next(Instant::now()) else {
            // Under the mutex: whoever comes now serves itself.
            queue.is_served = false;
            drop(queue);
            mem::forget(serving);
            return;
        };
        drop(queue);
        Renewing::start(shared, group);
    }
}

/// A group that counts against the limit of those under way.
struct Slot(Arc<Shared>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.keeper.renewals.queue().under_way -= 1;
        serve(&self.0);
    }
}

/// Renewals that count as unanswered when their runtime has gone.
struct Renewing {
    shared: Arc<Shared>,
    due: VecDeque<Due>,
    slot: Option<Slot>,
}

impl Renewing {
    fn start(shared: &Arc<Shared>, due: Vec<Due>) {
        let first = due.first().expect("no request is for nothing");
        let lane = shared.keeper.is_on_lane().then(lane::runtime).flatten();
        let runtime = lane.or_else(|| Handle::try_current().ok());
        let runtime = runtime.or_else(|| first.section.runtimes(false).pop());
        let renewing = Self {
            shared: shared.clone(),
            due: due.into(),
            slot: Some(Slot(shared.clone())),
        };
        if let Some(runtime) = runtime {
            runtime.spawn(renewing.run());
            let_others_take_it();
        }
    }

    async fn run(mut self) {
        // While it has these, nothing else sets the TTL of the leases.
        let mut alone = Vec::new();
        self.due.retain(|due| {
            let setting = due.section.setting_ttl.clone();
            // Its `min_hold` may be being set.
            let Ok(guard) = setting.map(tokio::sync::Mutex::try_lock_owned).transpose() else {
                return false;
            };
            // Some may have been given back before they could be sent.
            let is_held = due.section.is_held_by(due.owner);
            alone.extend(guard.filter(|_| is_held));
            is_held
        });
        let Some(first) = self.due.front() else {
            return;
        };
        let sent = first.section.now();
        let store = self.shared.store.at(sent);
        let lane = self.shared.keeper.is_on_lane().then(Handle::current);
        let answers = {
            let mut asked = pin!(ask(store, &self.due, lane.as_ref()));
            if let Ok(answers) = timeout(self.shared.response_limit, &mut asked).await {
                answers
            } else {
                // Others may go on meanwhile.
                self.slot = None;
                asked.await
            }
        };
        drop(alone);
        let mut answers = answers.into_iter();
        // One after the other: should this panic, the drop goes on with the rest.
        while let Some(due) = self.due.front() {
            let answer = answers.next().unwrap_or_else(|| Err(no_answer()));
            observe::renewed(&due.section, &answer);
            tend(&due.section, due.owner, Event::Renewed { sent, answer });
            self.due.pop_front();
        }
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        for due in mem::take(&mut self.due) {
            let sent = due.section.now();
            let gone = "the tokio runtime of the renewal has ended";
            let answer = Err(StoreError::new(StoreErrorKind::Disconnected, gone));
            observe::renewed(&due.section, &answer);
            tend(&due.section, due.owner, Event::Renewed { sent, answer });
        }
    }
}

/// One answer for each, as far as the store gives one.
async fn ask(
    store: Result<&dyn DynStore, StoreError>,
    due: &VecDeque<Due>,
    lane: Option<&Handle>,
) -> Vec<Result<Renewal, StoreError>> {
    let now = Instant::now();
    let limits = due.iter().map(|due| due.limit_at(now));
    let limit = limits.min().unwrap_or_default();
    let requests: Vec<_> = due
        .iter()
        .map(|due| due.section.renewal(due.owner, due.section.timing.ttl))
        .collect();
    let mut batch = RenewBatch::new(&requests).limit(limit);
    batch.runtime = lane;
    let sent = Request::Renew.sent();
    let answers = match store {
        Ok(store) => timeout(limit, store.renew(batch))
            .await
            .unwrap_or_else(|_| vec![Err(StoreError::timed_out(limit)); due.len()]),
        Err(error) => vec![Err(error); due.len()],
    };
    if answers.iter().any(Result::is_ok) {
        sent.answered();
    }
    for (due, answer) in due.iter().zip(&answers) {
        if let Err(error) = answer {
            observe::request_failed(&due.section, Request::Renew, error);
        }
    }
    answers
}

fn no_answer() -> StoreError {
    let text = "the store has answered fewer renewals than it was asked for";
    StoreError::new(StoreErrorKind::BadAnswer, text)
}
