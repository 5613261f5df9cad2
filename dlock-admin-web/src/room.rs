//! The state that all handlers of a page share, and the documents that they make of it.

use std::{fmt, future::pending, sync::Arc, time::Duration};

use dlock_runtime::clock::{Clock as _, Moment, SystemClock};
use futures_util::future::{BoxFuture, Shared};

use super::{
    desk::{Desk, DeskState, Shown},
    events::Streams,
    examine::Examination,
    hosts::Hosts,
    looks::Looks,
    moment, picture,
    query::Query,
    reply,
    token::Token,
    views::{ListView, Listing, PictureView, RowView, TotalsView},
};

pub(super) struct Room {
    pub(super) desk: Arc<Desk>,
    pub(super) looks: Looks,
    pub(super) examination: Examination,
    pub(super) streams: Streams,
    /// The names of the server that are answered.
    pub(super) hosts: Hosts,
    /// The token with which locks may be released.
    pub(super) token: Option<Token>,
    /// The end of the server.
    pub(super) end: Option<Shared<BoxFuture<'static, ()>>>,
}

impl Room {
    /// Waits for the end of the server.
    pub(super) async fn ended(&self) {
        match &self.end {
            Some(end) => end.clone().await,
            None => pending().await,
        }
    }

    pub(super) fn can_unlock(&self) -> bool {
        self.token.is_some()
    }

    /// Returns the document of the list.
    pub(super) fn listing(&self, shown: &Shown, query: &Query) -> String {
        let picture = shown.picture.as_deref();
        let chosen = picture.map(|picture| query.choose(picture));
        let chosen = chosen.unwrap_or_else(|| query.of_nothing());
        reply::text(&Listing {
            server: &shown.server,
            picture: self.age(shown, picture.map(|it| (it.began_ms(), it.at))),
            totals: self.totals(picture),
            cannot: cannot(shown),
            can_unlock: self.can_unlock(),
            list: ListView::of(&chosen),
            locks: chosen.locks.into_iter().map(RowView::of).collect(),
        })
    }

    /// Returns the state of a picture that was read at `taken`.
    pub(super) fn age<'a>(
        &self,
        shown: &'a Shown,
        taken: Option<(u64, Moment)>,
    ) -> PictureView<'a> {
        age_at(SystemClock.now(), shown, taken, self.desk.interval)
    }

    fn totals(&self, picture: Option<&picture::Picture>) -> TotalsView {
        let Some(picture) = picture else {
            return TotalsView::default();
        };
        TotalsView {
            locks: Some(picture.len()),
            held: Some(picture.totals.held),
            waiters: Some(picture.totals.waiters),
            longest_wait_ms: picture.totals.longest_wait_ms,
            processes: picture.process_count,
            grants_per_s: self.desk.grants_per_second(),
        }
    }
}

/// Returns the state at `now` of a picture that was read at `taken`. Time for which this machine was suspended counts too.
fn age_at(
    now: Moment,
    shown: &Shown,
    taken: Option<(u64, Moment)>,
    interval: Duration,
) -> PictureView<'_> {
    let passed = |since: Moment| moment::milliseconds(since.elapsed(now));
    let away = match &shown.state {
        DeskState::Away {
            reason,
            since_ms,
            since,
        } => Some((&**reason, *since_ms, *since)),
        _ => None,
    };
    PictureView {
        state: match shown.state {
            DeskState::Reading(_) => "reading",
            DeskState::Live => "live",
            DeskState::Away { .. } => "away",
        },
        progress: match shown.state {
            DeskState::Reading(progress) => progress,
            _ => None,
        },
        taken: taken.map(|(ms, _)| moment::text(ms)),
        age_ms: taken.map(|(_, at)| passed(at)),
        took_ms: shown
            .picture
            .as_ref()
            .map(|it| moment::milliseconds(it.took)),
        interval_ms: moment::milliseconds(interval),
        reason: away.map(|(reason, _, _)| reason),
        since: away.map(|(_, since_ms, _)| moment::text(since_ms)),
        away_ms: away.map(|(_, _, since)| passed(since)),
    }
}

/// Returns what the store cannot tell, or does not tell this user.
pub(super) fn cannot(shown: &Shown) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(reason) = &shown.is_deaf {
        told.push(format!(
            "Grants are not heard, so their number is unknown and a lease between two readings is not seen: {reason}."
        ));
    }
    if shown.server.hides_its_version() {
        told.push("The user of this page may not read the version of the server.".to_owned());
    }
    if shown.server.hides_its_clock() {
        told.push(
            "The clock of the store is not read: times compare the clocks of several machines."
                .to_owned(),
        );
    }
    let Some(picture) = &shown.picture else {
        return told;
    };
    if picture.processes.is_none() {
        told.push(
            "This store keeps no records of processes: only those that hold or await locks are known, by their labels, \
             and not their versions."
                .to_owned(),
        );
    }
    if picture.totals.of_quorum {
        told.push(
            "In a quorum each server has a queue of its own: the order of the waiters is that of one server, and a \
             waiter is notified that it may request the lock instead of being granted it."
                .to_owned(),
        );
    }
    told
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is a secret.
        f.debug_struct("Room")
            .field("desk", &self.desk)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::server::Server, *};

    #[test]
    fn time_for_which_the_machine_was_suspended_counts() {
        let taken = SystemClock.now();
        let shown = Shown {
            server: Server::unknown(None),
            state: DeskState::Away {
                reason: "no route".into(),
                since_ms: 7000,
                since: taken,
            },
            picture: None,
            is_deaf: None,
        };
        // Only the boot clock has gone on.
        let awake = Moment {
            boot: taken.boot + Duration::from_secs(3600),
            ..taken
        };
        let told = age_at(awake, &shown, Some((5000, taken)), Duration::from_secs(2));
        assert_eq!(told.age_ms, Some(3_600_000));
        assert_eq!(told.away_ms, Some(3_600_000));
        assert_eq!(told.since.as_deref(), Some("1970-01-01T00:00:07.000Z"));
        let live = Shown {
            state: DeskState::Live,
            ..shown
        };
        let told = age_at(awake, &live, None, Duration::from_secs(2));
        assert_eq!((told.age_ms, told.away_ms), (None, None));
    }
}
