//! Requests through a pooler: one at a time, each with a number that its answer repeats.
//!
//! # Rules
//!
//! - **Safety.** An answer is believed only if it has the number of its request. A pooler that has once miscounted
//!   the requests of a client gives its answers to the next one: PgBouncer 1.18 does when a client has sent two at
//!   once and leaves after the first answer. Any application at the pooler can be that client.
//!   (`an_answer_that_a_pooler_has_mixed_up_is_not_believed`)
//! - No request is sent before the last one was answered, also if its caller is gone: dlock would do this to the
//!   applications at the same pooler. (`a_manager_that_leaves_a_pooler_mixes_up_no_answers_of_others`)

use std::{
    error::Error,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use bytes::BytesMut;
use tokio::{runtime::Handle, sync::Mutex};
use tokio_postgres::{
    Client, Row,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

use crate::{
    calls::{Call, Failure},
    schema::Schema,
};

/// Returns the statement of a call with the number of the request behind each row, and at least one row: before those
/// of a renewal, there is one for the index 0, which no lease has.
pub(crate) fn numbered(call: Call, schema: &Schema) -> String {
    schema.fill(match call {
        Call::Acquire => "SELECT *, $8 FROM {schema}.acquire($1, $2, $3, $4, $5, $6, $7)",
        Call::Release => "SELECT {schema}.release($1, $2), $3",
        Call::Renew => {
            "SELECT index, $6 FROM (SELECT 0::bigint UNION ALL \
             SELECT {schema}.renew($1, $2, $3, $4, $5)) renewed (index)"
        }
        Call::Sweep => "SELECT {schema}.sweep(), $1",
    })
}

/// The requests on one connection through a pooler.
pub(crate) struct Turns {
    /// Locked from a request to its answer.
    turn: Arc<Mutex<()>>,
    next: AtomicI64,
    /// An answer was not that of its request, or could not be read, and the same may be true of all that follow.
    is_spent: Arc<AtomicBool>,
    /// Where the answers are awaited, whatever happens to the callers.
    runtime: Handle,
}

impl Turns {
    /// The numbers of the requests begin with `first`, which is far from those of all other connections.
    pub(crate) fn new(runtime: Handle, first: u64) -> Self {
        Self {
            turn: Arc::default(),
            next: AtomicI64::new(first.cast_signed()),
            is_spent: Arc::default(),
            runtime,
        }
    }

    /// Returns `true` if the connection has to be replaced.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Acquire)
    }

    /// Sends a call with its [`numbered`] text, and returns the rows that it has without the number.
    pub(crate) async fn call(
        &self,
        client: &Arc<Client>,
        call: Call,
        text: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let mut rows = self.ask(client, text, parameters, call.types()).await?;
        if matches!(call, Call::Renew) {
            rows.retain(|row| !matches!(row.try_get(0), Ok(0_i64)));
        }
        Ok(rows)
    }

    /// Sends a request. Its text has one parameter more than `parameters`: the number, which is the last column of its
    /// rows. There is at least one row.
    pub(crate) async fn ask(
        &self,
        client: &Arc<Client>,
        text: &str,
        parameters: &[&(dyn ToSql + Sync)],
        types: &[Type],
    ) -> Result<Vec<Row>, Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let encoded = parameters.iter().zip(types);
        let mut encoded: Vec<_> = encoded.map(|(it, of)| Encoded::new(*it, of)).collect();
        encoded.push(Encoded::new(&number, &Type::INT8));
        let (client, text) = (client.clone(), text.to_owned());
        self.in_turn(async move {
            let parameters: Vec<_> = encoded.iter().map(Encoded::parameter).collect();
            let answer = client.query_typed(&text, &parameters).await;
            if answer.as_ref().is_err_and(|it| it.as_db_error().is_some()) {
                // An error has no number. It is that of the request if the next answer is in its place.
                echo(&client, number).await?;
            }
            answers_to(number, answer?)
        })
        .await
    }

    /// Sees whether the connection answers.
    pub(crate) async fn try_out(&self, client: &Arc<Client>) -> Result<(), Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let client = client.clone();
        self.in_turn(async move { echo(&client, number).await })
            .await
    }

    /// Carries out a request when all earlier ones have been answered.
    async fn in_turn<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let turn = self.turn.clone().lock_owned().await;
        let is_spent = self.is_spent.clone();
        if self.is_spent() {
            return Err(Failure::Unsent);
        }
        let asked = self.runtime.spawn(async move {
            let answer = request.await;
            if answer.as_ref().is_err_and(|it| !it.is_of_server()) {
                is_spent.store(true, Ordering::Release);
            }
            drop(turn);
            answer
        });
        // The thread of the store has ended.
        asked.await.unwrap_or(Err(Failure::Closed))
    }
}

async fn echo(client: &Client, number: i64) -> Result<(), Failure> {
    let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&number, Type::INT8)];
    let rows = client.query_typed("SELECT $1", &parameters).await?;
    answers_to(number, rows).map(drop)
}

/// Returns the rows if they are the answer to the request with this number.
fn answers_to(number: i64, rows: Vec<Row>) -> Result<Vec<Row>, Failure> {
    let is_right = |row: &Row| {
        let last = row.len().checked_sub(1);
        last.is_some_and(|last| row.try_get::<_, i64>(last).is_ok_and(|it| it == number))
    };
    if rows.is_empty() || !rows.iter().all(is_right) {
        return Err(Failure::OfOthers);
    }
    Ok(rows)
}

/// A parameter as it is sent, which does not depend on the caller any more.
#[derive(Debug)]
struct Encoded {
    /// None is NULL.
    bytes: Option<BytesMut>,
    of: Type,
}

impl Encoded {
    fn new(value: &(dyn ToSql + Sync), of: &Type) -> Self {
        let mut bytes = BytesMut::new();
        let is_null = value
            .to_sql_checked(of, &mut bytes)
            .expect("each request has values of its types");
        Self {
            bytes: matches!(is_null, IsNull::No).then_some(bytes),
            of: of.clone(),
        }
    }

    fn parameter(&self) -> (&(dyn ToSql + Sync), Type) {
        (self, self.of.clone())
    }
}

impl ToSql for Encoded {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Ok(match &self.bytes {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                IsNull::No
            }
            None => IsNull::Yes,
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use dlock_testkit::PostgresServer;

    use super::*;

    #[tokio::test]
    async fn an_answer_is_believed_if_each_of_its_rows_has_the_number_of_the_request() {
        let server = PostgresServer::shared().await;
        let client = server.client("postgres").await;
        for (statement, rows) in [
            ("SELECT 7::bigint", Some(1)),
            (
                "SELECT 'a', 7::bigint UNION ALL SELECT 'b', 7::bigint",
                Some(2),
            ),
            ("SELECT 7::bigint WHERE false", None),
            ("SELECT 8::bigint", None),
            ("SELECT 7::bigint, 8::bigint", None),
            ("SELECT 7::bigint UNION ALL SELECT 8::bigint", None),
            ("SELECT 7::integer", None),
            ("SELECT NULL::bigint", None),
            ("SELECT", None),
        ] {
            let answer = client.query(statement, &[]).await.unwrap();
            match (answers_to(7, answer), rows) {
                (Ok(answer), Some(rows)) => assert_eq!(answer.len(), rows, "{statement}"),
                (Err(Failure::OfOthers), None) => {}
                (other, _) => panic!("{statement}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_parameter_is_sent_as_it_was_when_the_request_was_made() {
        let null: Option<&str> = None;
        let (text, number) = ("order:42", 7_i64);
        for (value, of, expected) in [
            (
                &text as &(dyn ToSql + Sync),
                Type::TEXT,
                Some(&b"order:42"[..]),
            ),
            (&number, Type::INT8, Some(&[0, 0, 0, 0, 0, 0, 0, 7])),
            (&null, Type::TEXT, None),
        ] {
            let encoded = Encoded::new(value, &of);
            let (parameter, known) = encoded.parameter();
            let mut bytes = BytesMut::new();
            let is_null = parameter.to_sql_checked(&known, &mut bytes).unwrap();
            let sent = matches!(is_null, IsNull::No).then_some(&*bytes);
            assert_eq!((known, sent), (of, expected));
        }
    }
}
