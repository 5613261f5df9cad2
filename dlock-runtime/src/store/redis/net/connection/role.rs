//! Asks a server again and again whether it is still a master.
//!
//! A master that becomes a replica keeps its connections. With `replica-read-only no` it also goes on granting and
//! renewing, beside the new master. The role is therefore a part of the answers:
//!
//! - **[S]** An answer counts only if the server has called itself a master in reply to a question that was sent with
//!   the request, or at most [`TRUSTED_FOR`] before it.
//!   (`a_replica_that_takes_writes_grants_nothing_over_open_connections`,
//!   `a_replica_that_takes_writes_does_not_keep_a_lease`)
//!
//! `HELLO` is the question, because each user may send it. It follows the request in the same write, so it costs no
//! round trip. A script could only call `INFO`, which needs a permission, and takes 2 µs of the server's time in each
//! script, of 5 µs for an acquire. `HELLO` takes 0.5 µs, ten times a second. A node of a cluster is not asked: a replica
//! there redirects.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::{Cmd, RedisError, Value};

use crate::{
    clock::{Clock, Moment, SystemClock},
    store::{StoreError, redis::net::server_check},
};

/// The time for which a server that has called itself a master is believed.
const TRUSTED_FOR: Duration = Duration::from_millis(100);

/// The question. Without arguments it changes nothing, neither the protocol nor the login.
pub(super) static QUESTION: LazyLock<Cmd> = LazyLock::new(|| redis::cmd("HELLO"));

/// The place of [`Role::confirmed`] for a server that does not tell its role.
const UNTOLD: u64 = u64::MAX;

/// The role of the server at the other end of a connection, as far as it is known.
pub(super) struct Role {
    begun: Moment,
    /// The time of the last question to which the answer was "master", in microseconds since `begun`.
    confirmed: AtomicU64,
}

impl Default for Role {
    fn default() -> Self {
        Self {
            begun: SystemClock.now(),
            confirmed: AtomicU64::new(UNTOLD),
        }
    }
}

/// A [`QUESTION`] that has to be sent behind a request of this time.
pub(super) struct RoleQuestion(u64);

impl Role {
    /// Returns the question to send with a request of this moment, if one is due.
    pub(super) fn question(&self) -> Option<RoleQuestion> {
        self.question_at(self.now())
    }

    fn question_at(&self, now: u64) -> Option<RoleQuestion> {
        let confirmed = self.confirmed.load(Ordering::Relaxed);
        if confirmed == UNTOLD {
            return None;
        }
        // A question counts once it is answered: a request that is dropped may take its question along.
        let is_due = Duration::from_micros(now.saturating_sub(confirmed)) >= TRUSTED_FOR;
        is_due.then_some(RoleQuestion(now))
    }

    /// Returns the question that is sent while the connection is prepared.
    pub(super) fn first_question(&self) -> RoleQuestion {
        RoleQuestion(self.now())
    }

    /// Records the answer to the first question. A server that does not tell its role is not asked again.
    pub(super) fn begin(&self, asked: &RoleQuestion, hello: &Value) {
        if server_check::tells_role(hello) {
            self.confirmed.store(asked.0, Ordering::Relaxed);
        }
    }

    /// Records an answer. Returns an error if the server is a replica.
    pub(super) fn heard(
        &self,
        asked: &RoleQuestion,
        answer: Result<Value, RedisError>,
    ) -> Result<(), StoreError> {
        // A server that refuses the question now says nothing about its role: it is asked again with the next request.
        if let Ok(hello) = answer
            && server_check::tells_role(&hello)
        {
            server_check::is_master(&hello)?;
            self.confirmed.fetch_max(asked.0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        let micros = self.begun.elapsed(SystemClock.now()).as_micros();
        u64::try_from(micros).unwrap_or(UNTOLD - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreErrorKind;

    fn says(role: &str) -> Value {
        let text = |text: &str| Value::BulkString(text.into());
        Value::Map(vec![(text("role"), text(role))])
    }

    /// The role of a server that has called itself a master at the beginning.
    fn master() -> Role {
        let role = Role::default();
        role.begin(&RoleQuestion(0), &says("master"));
        role
    }

    fn at(role: &Role, ms: u64) -> Option<RoleQuestion> {
        role.question_at(ms * 1000)
    }

    #[test]
    fn a_master_is_asked_again_when_its_answer_is_too_old() {
        let role = master();
        assert!(at(&role, 99).is_none());
        let first = at(&role, 100).expect("it is due");
        let second = at(&role, 150).expect("there is no answer yet");
        // The later question counts.
        assert_eq!(role.heard(&second, Ok(says("master"))), Ok(()));
        assert_eq!(role.heard(&first, Ok(says("master"))), Ok(()));
        assert!(at(&role, 249).is_none());
        let third = at(&role, 250).expect("it is due");
        let replica = role.heard(&third, Ok(says("replica"))).unwrap_err();
        assert_eq!(replica.kind(), StoreErrorKind::ReadOnly, "{replica}");
        assert!(at(&role, 250).is_some(), "a replica is not believed");
    }

    #[test]
    fn a_server_that_does_not_tell_its_role_is_not_asked() {
        let role = Role::default();
        role.begin(&RoleQuestion(0), &Value::Map(Vec::new()));
        assert!(at(&role, 1000).is_none());
    }

    #[test]
    fn a_refused_question_is_asked_again() {
        let role = master();
        let asked = at(&role, 100).expect("it is due");
        let refused = RedisError::from((redis::ErrorKind::Client, "refused"));
        assert_eq!(role.heard(&asked, Err(refused)), Ok(()));
        assert!(at(&role, 100).is_some());
    }
}
