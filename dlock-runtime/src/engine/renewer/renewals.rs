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

use std::{collections::VecDeque, mem, pin::pin, sync::Arc};

use tokio::{
    runtime::Handle,
    time::{Instant, timeout},
};

use super::queue::{Due, Renewals};
use crate::{
    engine::{
        acquisition::{Acquisition, Engine},
        lane,
        spawn::let_others_take_it,
    },
    observe::{RequestKind, SentRequest},
    state::Event,
    store::{DynStore, RenewBatch, Renewal, StoreError, StoreErrorKind},
};

/// Sends these as soon as may be.
pub(super) fn renew(core: &Arc<Engine>, due: Vec<Due<Acquisition>>) {
    if due.is_empty() {
        return;
    }
    let mut replaced = Vec::new();
    let mut queue = core.renewer.renewals.queue();
    for due in due {
        // The last handle to a section is not dropped under the mutex.
        replaced.extend(queue.waiting.insert((due.deadline, due.owner), due));
    }
    drop(queue);
    drop(replaced);
    serve(core);
}

/// Sends what may be sent now.
fn serve(core: &Arc<Engine>) {
    /// While it lives, no other call sends: a group that ends while it is being sent would else send the next
    /// from within its own drop, and that one the next.
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
            // Under the mutex: a call that comes now serves itself.
            queue.is_served = false;
            drop(queue);
            mem::forget(serving);
            return;
        };
        drop(queue);
        Renewing::start(core, group);
    }
}

/// A group that counts against the limit of those under way.
struct UnderWay(Arc<Engine>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.renewer.renewals.queue().under_way -= 1;
        serve(&self.0);
    }
}

/// Renewals that count as unanswered when their runtime has gone.
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
        // While it has these, nothing else sets the TTL of the leases.
        let mut alone = Vec::new();
        self.due.retain(|due| {
            let setting = due.acquisition.setting_ttl.clone();
            // Its `min_hold` may be being set.
            let Ok(guard) = setting.map(tokio::sync::Mutex::try_lock_owned).transpose() else {
                return false;
            };
            // Some may have been given back before they could be sent.
            let is_held = due.acquisition.is_held_by(due.owner);
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
                // Others may go on meanwhile.
                self.under_way = None;
                asked.await
            }
        };
        drop(alone);
        let mut answers = answers.into_iter();
        // One after the other: should this panic, the drop goes on with the rest.
        while let Some(due) = self.due.front() {
            let answer = answers.next().unwrap_or_else(|| Err(no_answer()));
            due.acquisition.events().renewed(&answer);
            (due.answered)(&due.acquisition, due.owner, Event::Renewed { sent, answer });
            self.due.pop_front();
        }
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        for due in mem::take(&mut self.due) {
            let sent = due.acquisition.now();
            let gone = "the tokio runtime of the renewal has ended";
            let answer = Err(StoreError::new(StoreErrorKind::Disconnected, gone));
            due.acquisition.events().renewed(&answer);
            (due.answered)(&due.acquisition, due.owner, Event::Renewed { sent, answer });
        }
    }
}

/// A store begins to count its limit once it has made its requests, and what other servers have answered is lost with
/// a call that is broken off: it gets this part of the limit more before that.
const GRACE: u32 = 4;

/// One answer for each, as far as the store gives one.
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
    let text = "the store has answered fewer renewals than it was asked for";
    StoreError::new(StoreErrorKind::BadAnswer, text)
}
