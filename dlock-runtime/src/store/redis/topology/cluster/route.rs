//! Routes a request to its node, and follows redirections.

#[cfg(test)]
mod tests;

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::future::join_all;
use redis::Value;
use tokio::{
    runtime,
    time::{Instant, sleep, timeout_at},
};

use super::{Cluster, map::Member, state::Knowledge};
use crate::{
    random::{Random, SystemRandom, jittered},
    store::{
        StoreError, StoreErrorKind,
        redis::{
            net::connection::Stop,
            protocol::{
                command::Command,
                errors,
                redirect::{Place, Redirect},
            },
        },
    },
};

/// More redirections in a row come from nodes that do not agree, and cause a pause.
const MOST_IN_A_ROW: u32 = 4;

const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The route of one request until it is answered.
pub(crate) struct Route<'a> {
    command: &'a Command,
    slot: u16,
    /// The time at which the request must have ended in any case.
    end: Instant,
    /// The whole time limit.
    limit: Duration,
    to: Target,
    in_a_row: u32,
    pause: Duration,
    /// The reason for its last pause.
    put_off: Option<String>,
}

enum Target {
    /// The node that has the slot according to the map.
    Owner,
    Node {
        member: Arc<Member>,
        asking: bool,
    },
}

impl Cluster {
    /// Executes commands, with one write to each node, within `limit`. The answers have the order of the commands.
    pub(crate) async fn execute_all(
        &self,
        commands: &[Command],
        limit: Duration,
    ) -> Vec<Result<Value, StoreError>> {
        if let Err(error) = within_a_runtime() {
            return vec![Err(error); commands.len()];
        }
        self.watcher.revive();
        let mut groups: Vec<(Option<Arc<Member>>, Vec<usize>)> = Vec::new();
        for (index, command) in commands.iter().enumerate() {
            let owner = self.shared.read(|map| map.owner(command.slot()));
            let same = |group: &&mut (Option<Arc<Member>>, Vec<usize>)| match (&group.0, &owner) {
                (Some(known), Some(owner)) => Arc::ptr_eq(known, owner),
                (None, None) => true,
                _ => false,
            };
            match groups.iter_mut().find(same) {
                Some((_, indices)) => indices.push(index),
                None => groups.push((owner, vec![index])),
            }
        }
        let asked = groups.into_iter().map(|(owner, indices)| async move {
            let routes = indices
                .iter()
                .map(|&index| Route::to_owner(&commands[index], limit));
            let answers = self.execute_together(owner, routes.collect(), limit).await;
            indices.into_iter().zip(answers)
        });
        let mut answers: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Sends requests for one node together. A redirected request continues alone.
    async fn execute_together(
        &self,
        owner: Option<Arc<Member>>,
        mut routes: Vec<Route<'_>>,
        limit: Duration,
    ) -> Vec<Result<Value, StoreError>> {
        let Some(owner) = owner else {
            return join_all(routes.iter_mut().map(|route| self.execute(route))).await;
        };
        let commands: Vec<_> = routes.iter().map(|route| route.command).collect();
        let end = routes.first().map_or_else(Instant::now, |route| route.end);
        let asked = async {
            let handle = owner.node.handle_within(limit / 2).await;
            let handle = handle.map_err(StoreError::unsent)?;
            Ok::<_, StoreError>(handle.execute_all(&commands).await)
        };
        let stops = match owner.node.attend(end, asked).await {
            Some(Ok(stops)) => stops,
            Some(Err(_)) if owner.is_gone() => {
                return join_all(routes.iter_mut().map(|route| self.execute(route))).await;
            }
            Some(Err(error)) => {
                self.shared.doubt_after(&error);
                return vec![Err(error.at(&owner.shown)); commands.len()];
            }
            None => {
                self.shared.doubt();
                return vec![Err(timed_out(&owner, limit)); commands.len()];
            }
        };
        let rest = routes.iter_mut().zip(stops).map(|(route, stop)| async {
            match stop {
                Ok(answer) => Ok(answer),
                Err(stop) => match self.turn(route, &owner, stop).await? {
                    Some(answer) => Ok(answer),
                    None => self.execute(route).await,
                },
            }
        });
        join_all(rest).await
    }

    /// Executes the command of a route at its node, within the time of the route.
    ///
    /// After an error, the command may have been carried out, unless the error says otherwise.
    pub(crate) async fn execute(&self, route: &mut Route<'_>) -> Result<Value, StoreError> {
        within_a_runtime()?;
        self.watcher.revive();
        loop {
            let (member, asking) = match &route.to {
                Target::Owner => (self.owner(route).await?, false),
                Target::Node { member, asking } => (member.clone(), *asking),
            };
            let handle = match timeout_at(route.end, member.node.handle()).await {
                Ok(Ok(handle)) => handle,
                Ok(Err(_)) if member.is_gone() => {
                    // The node has left the map since the last lookup.
                    route.to = Target::Owner;
                    route.rest_if_lost().await?;
                    continue;
                }
                Ok(Err(error)) => {
                    self.shared.doubt_after(&error);
                    return Err(error.unsent().at(&member.shown));
                }
                Err(_) => {
                    self.shared.doubt();
                    return Err(route.timed_out(&member).unsent());
                }
            };
            // From here on, a failed request may have been carried out.
            let asked = handle.execute(route.command, asking);
            match member.node.attend(route.end, asked).await {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(stop)) => {
                    if let Some(answer) = self.turn(route, &member, stop).await? {
                        return Ok(answer);
                    }
                }
                None => {
                    self.shared.doubt();
                    return Err(route.timed_out(&member));
                }
            }
        }
    }

    /// Selects the next node after `member` has not carried out the request, or returns the answer.
    async fn turn(
        &self,
        route: &mut Route<'_>,
        member: &Member,
        stop: Stop,
    ) -> Result<Option<Value>, StoreError> {
        let (redirect, words) = match stop {
            Stop::Redirected(redirect, words) => (redirect, words),
            Stop::Failed(error) => {
                self.shared.doubt_after(&error);
                return Err(error.at(&member.shown));
            }
        };
        match redirect {
            Redirect::Moved(place) => {
                self.shared.doubt();
                route.to = self.target(&place, member, false);
                if let Target::Node { member, .. } = &route.to {
                    let member = member.clone();
                    self.shared.write(|map| map.moved(route.slot, member));
                }
                route.rest_if_lost().await?;
            }
            Redirect::Ask(place) => {
                route.to = self.target(&place, member, true);
                route.rest_if_lost().await?;
            }
            Redirect::TryAgain => {
                let released = self.release_alone(route).await?;
                if released == Some(Value::Int(1)) {
                    return Ok(released);
                }
                if released.is_some() && Instant::now() + route.limit / 2 > route.end {
                    // The owner does not hold the lock. If it is still queued, it is skipped.
                    return Ok(released);
                }
                route.to = Target::Owner;
                route.rest(&format!("({})", words.message())).await?;
            }
        }
        Ok(None)
    }

    /// Carries out the part of a release that is possible while the slot moves, so that waiters do not have to wait
    /// for an unneeded lock.
    async fn release_alone(&self, route: &Route<'_>) -> Result<Option<Value>, StoreError> {
        let Some(command) = route.command.of_the_lock_alone() else {
            return Ok(None);
        };
        let mut alone = Route {
            command: &command,
            to: Target::Owner,
            in_a_row: 0,
            put_off: None,
            ..*route
        };
        Box::pin(self.execute(&mut alone)).await.map(Some)
    }

    /// Returns the node at `place`, which `from` has named.
    fn target(&self, place: &Place, from: &Member, asking: bool) -> Target {
        let Some(address) = place.seen_from(&from.address) else {
            return Target::Owner;
        };
        let shared = &self.shared;
        let start = |address: &_| shared.start_node(address);
        let member = shared.write(|map| map.named(&address, start));
        Target::Node { member, asking }
    }

    async fn owner(&self, route: &Route<'_>) -> Result<Arc<Member>, StoreError> {
        let find = || self.shared.read(|map| map.owner(route.slot));
        if let Some(member) = find() {
            return Ok(member);
        }
        let mut knowledge = self.shared.knowledge.subscribe();
        // A caller with the same limit should learn that nothing was sent.
        let end = route.end - route.limit / 10;
        let told = knowledge.wait_for(|it| !matches!(it, Knowledge::Asking));
        let told = tokio::select! {
            biased;
            told = self.watcher.attend(end, told) => told,
            error = self.watcher.keep_going() => return Err(error.unsent()),
        };
        match told {
            Some(Ok(known)) => {
                if let Knowledge::Failed(error) = &*known {
                    return Err(error.clone().unsent());
                }
            }
            _ => return Err(self.shared.no_connection(route.limit)),
        }
        find().ok_or_else(|| {
            self.shared.doubt();
            let message = format!("CLUSTERDOWN no node serves slot {}", route.slot);
            StoreError::new(StoreErrorKind::Refused, message).unsent()
        })
    }
}

impl<'a> Route<'a> {
    pub(crate) fn to_owner(command: &'a Command, limit: Duration) -> Self {
        Self {
            command,
            slot: command.slot(),
            end: Instant::now() + limit,
            limit,
            to: Target::Owner,
            in_a_row: 0,
            pause: FIRST_PAUSE,
            put_off: None,
        }
    }

    /// Continues at once, unless the nodes redirect the request in a circle.
    fn rest_if_lost(&mut self) -> impl Future<Output = Result<(), StoreError>> {
        self.in_a_row += 1;
        let is_lost = self.in_a_row > MOST_IN_A_ROW || matches!(self.to, Target::Owner);
        async move {
            if is_lost {
                self.rest("(the nodes' MOVED replies do not agree)").await?;
            }
            Ok(())
        }
    }

    /// Pauses, longer each time. Returns an error if no time is left for another attempt.
    async fn rest(&mut self, why: &str) -> Result<(), StoreError> {
        let pause = jittered(self.pause, SystemRandom.next_u64());
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.in_a_row = 0;
        let slot = self.slot;
        let put_off = format!("slot {slot} is being moved between nodes {why}");
        // One more attempt must fit into the time, or its outcome would be unknown.
        if Instant::now() + pause + self.limit / 8 >= self.end {
            let message = format!("{put_off}, and was not served within {:.0?}", self.limit);
            // Every node has refused the whole request.
            return Err(StoreError::new(StoreErrorKind::Refused, message).unsent());
        }
        self.put_off = Some(put_off);
        sleep(pause).await;
        Ok(())
    }

    fn timed_out(&self, member: &Member) -> StoreError {
        let error = timed_out(member, self.limit);
        match &self.put_off {
            None => error,
            Some(before) => {
                let message = format!("{}; before that, {before}", error.message());
                StoreError::new(error.kind(), message)
            }
        }
    }
}

fn timed_out(member: &Member, limit: Duration) -> StoreError {
    StoreError::timed_out(limit).at(&member.shown)
}

fn within_a_runtime() -> Result<(), StoreError> {
    // Without a runtime, a timer panics.
    match runtime::Handle::try_current() {
        Ok(_) => Ok(()),
        Err(_) => Err(errors::no_runtime("no tokio runtime is running here").unsent()),
    }
}
