//! Sends the renewals that are due: in groups, few at a time, earliest deadline first.
//!
//! Sending all at once would be worse than sending late. If the process lacks CPU time, or the server has
//! just resumed after a pause, all answers arrive after their limit. The process would then repeat every
//! request and make no progress, although the server has renewed every lease. Few requests are therefore in
//! flight. A request without an answer within the usual time makes way for the next one. Its answer still
//! counts, from the time at which the request was sent, for as long as its leases allow to wait.
//!
//! A runtime that shuts down drops its tasks, at any await and even before their first poll. A request is
//! therefore a value that is created before its task is spawned. Its drop reports that it got no answer.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashSet, VecDeque},
    mem,
    pin::pin,
    sync::Arc,
};

use tokio::{
    runtime::Handle,
    time::{Instant, timeout},
};

use super::queue::{Due, Renewals};
use crate::{
    engine::{
        acquisition::{Acquisition, Engine},
        spawn::let_others_take_it,
    },
    lane,
    observe::{RequestKind, SentRequest},
    state::Event,
    store::{DynStore, RenewBatch, Renewal, StoreError, StoreErrorKind},
};

/// Sends these renewals as soon as possible.
pub(super) fn renew(core: &Arc<Engine>, due: Vec<Due<Acquisition>>) {
    if due.is_empty() {
        return;
    }
    let mut replaced = Vec::new();
    let mut queue = core.renewer.renewals.queue();
    for due in due {
        // The last handle to an acquisition must not be dropped under the mutex.
        replaced.extend(queue.waiting.insert((due.deadline, due.owner), due));
    }
    drop(queue);
    drop(replaced);
    serve(core);
}

/// Sends the renewals that may be sent now.
fn serve(core: &Arc<Engine>) {
    /// While it exists, no other call sends. Otherwise a group that ends while it is being sent would send
    /// the next group from its own drop, which would send the next one, and so on.
    struct Serving<'a>(&'a Renewals<Acquisition>);

    impl Drop for Serving<'_> {
        fn drop(&mut self) {
            self.0.queue().is_served = false;
        }
    }

    let renewals = &core.renewer.renewals;
    if mem::replace(&mut renewals.queue().is_served, true) {
        return;
    }
    let serving = Serving(renewals);
    loop {
        let mut queue = renewals.queue();
        let Some(group) = queue.next(Instant::now()) else {
            // Under the mutex: a later call serves itself.
            queue.is_served = false;
            drop(queue);
            mem::forget(serving);
            return;
        };
        drop(queue);
        Renewing::start(core, group);
    }
}

/// A group that counts against the limit of groups in flight.
struct UnderWay(Arc<Engine>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.renewer.renewals.queue().under_way -= 1;
        serve(&self.0);
    }
}

/// Renewals that count as unanswered when their runtime has shut down.
struct Renewing {
    core: Arc<Engine>,
    due: VecDeque<Due<Acquisition>>,
    under_way: Option<UnderWay>,
}

impl Renewing {
    fn start(core: &Arc<Engine>, due: Vec<Due<Acquisition>>) {
        let first = due.first().expect("no request is for nothing");
        let lane = core.renewer.is_on_lane().then(lane::runtime).flatten();
        let runtime = lane.or_else(|| Handle::try_current().ok());
        let runtime = runtime.or_else(|| first.acquisition.runtimes(false).pop());
        let renewing = Self {
            core: core.clone(),
            due: due.into(),
            under_way: Some(UnderWay(core.clone())),
        };
        if let Some(runtime) = runtime {
            runtime.spawn(renewing.run());
            let_others_take_it();
        }
    }

    async fn run(mut self) {
        // While these are locked, no other request sets the TTL of the leases.
        let mut alone = Vec::new();
        // A claim may have got its next lease while a renewal of the last one waited here. The answer goes to the
        // claim, so one is enough; stores rely on it that all renewals of a batch are of different leases.
        let mut owners = HashSet::new();
        self.due.retain(|due| {
            let setting = due.acquisition.setting_ttl.clone();
            // The request that keeps its `min_hold` may be in flight.
            let Ok(guard) = setting.map(tokio::sync::Mutex::try_lock_owned).transpose() else {
                return false;
            };
            // Some leases may have been released before their renewal could be sent.
            let is_held = due.acquisition.is_held_by(due.owner) && owners.insert(due.owner);
            alone.extend(guard.filter(|_| is_held));
            is_held
        });
        let Some(first) = self.due.front() else {
            return;
        };
        let sent = first.acquisition.now();
        let store = self.core.store.at(sent);
        let lane = self.core.renewer.is_on_lane().then(Handle::current);
        let answers = {
            let mut asked = pin!(ask(store, &self.due, lane.as_ref()));
            if let Ok(answers) = timeout(self.core.response_limit, &mut asked).await {
                answers
            } else {
                // Other groups may be sent in the meantime.
                self.under_way = None;
                asked.await
            }
        };
        drop(alone);
        let mut answers = answers.into_iter();
        // One after the other: if this panics, the drop continues with the rest.
        while let Some(due) = self.due.front() {
            let answer = answers.next().unwrap_or_else(|| Err(no_answer()));
            due.acquisition.events().renewed(&answer);
            (due.on_answer)(&due.acquisition, due.owner, Event::Renewed { sent, answer });
            self.due.pop_front();
        }
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        for due in mem::take(&mut self.due) {
            let sent = due.acquisition.now();
            let gone = "the tokio runtime of the renewal has shut down";
            let answer = Err(StoreError::new(StoreErrorKind::Disconnected, gone));
            due.acquisition.events().renewed(&answer);
            (due.on_answer)(&due.acquisition, due.owner, Event::Renewed { sent, answer });
        }
    }
}

/// A store starts its limit after it has created its requests, and cancelling a call discards the answers of
/// other servers. The call therefore gets this additional part of the limit before it is cancelled.
const GRACE: u32 = 4;

/// Returns one answer per renewal, as far as the store gives one.
async fn ask(
    store: Result<&dyn DynStore, StoreError>,
    due: &VecDeque<Due<Acquisition>>,
    lane: Option<&Handle>,
) -> Vec<Result<Renewal, StoreError>> {
    let now = Instant::now();
    let limits = due.iter().map(|due| due.limit_at(now));
    let limit = limits.min().unwrap_or_default();
    let requests: Vec<_> = due
        .iter()
        .map(|due| {
            due.acquisition
                .renewal(due.owner, due.acquisition.timing.ttl)
        })
        .collect();
    let mut batch = RenewBatch::new(&requests).limit(limit);
    batch.runtime = lane;
    let sent = SentRequest::now(RequestKind::Renew);
    let answers = match store {
        Ok(store) => timeout(limit + limit / GRACE, store.renew(batch))
            .await
            .unwrap_or_else(|_| vec![Err(StoreError::timed_out(limit)); due.len()]),
        Err(error) => vec![Err(error); due.len()],
    };
    if answers.iter().any(Result::is_ok) {
        sent.answered();
    }
    for (due, answer) in due.iter().zip(&answers) {
        if let Err(error) = answer {
            due.acquisition
                .events()
                .request_failed(RequestKind::Renew, error);
        }
    }
    answers
}

fn no_answer() -> StoreError {
    let text = "the store returned fewer answers than there were renewals";
    StoreError::new(StoreErrorKind::BadAnswer, text)
}
