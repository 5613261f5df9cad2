//! The state that all handlers of a page share, and the documents that they make of it.

use std::{fmt, future::pending, sync::Arc};

use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;

use super::{
    desk::{Desk, Shown, State},
    examine::Examination,
    looks::Looks,
    moment, picture,
    query::Query,
    reply,
    views::{ListView, Listing, PictureView, RowView, TotalsView},
};

pub(super) struct Room {
    pub(super) desk: Arc<Desk>,
    pub(super) looks: Looks,
    pub(super) examination: Examination,
    /// `true` if only names of this machine are answered.
    pub(super) is_local: bool,
    /// The token with which locks may be released.
    pub(super) token: Option<String>,
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
            picture: self.age(shown, picture.map(|it| (it.taken_ms, it.at))),
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
        taken: Option<(u64, Instant)>,
    ) -> PictureView<'a> {
        let (reason, since_ms) = match &shown.state {
            State::Away { reason, since_ms } => (Some(&**reason), Some(*since_ms)),
            _ => (None, None),
        };
        PictureView {
            state: match shown.state {
                State::Reading(_) => "reading",
                State::Live => "live",
                State::Away { .. } => "away",
            },
            progress: match shown.state {
                State::Reading(progress) => progress,
                _ => None,
            },
            taken: taken.map(|(ms, _)| moment::text(ms)),
            age_ms: taken.map(|(_, at)| moment::milliseconds(at.elapsed())),
            took_ms: shown
                .picture
                .as_ref()
                .map(|it| moment::milliseconds(it.took)),
            interval_ms: moment::milliseconds(self.desk.interval),
            reason,
            since: since_ms.map(moment::text),
        }
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
            hand_offs_per_s: self.desk.hand_offs_per_second(),
        }
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
    let Some(picture) = &shown.picture else {
        return told;
    };
    if picture.process_count.is_none() {
        told.push(
            "This store keeps no records of processes: their hosts, versions and numbers are unknown."
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
