//! The requests as statements: each is one call of a function of the schema.
//!
//! On a direct connection they are prepared once. Behind a pooler they have no name, which may meet another client's
//! statement there, and take turns.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::try_join_all;
use tokio_postgres::{
    Client, Error, Row, Statement,
    types::{ToSql, Type},
};

use crate::{errors, pooled::Turns, schema::Schema};

static ACQUIRE: [Type; 7] = [
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT4,
    Type::BOOL,
    Type::TEXT,
    Type::TEXT,
];

static RELEASE: [Type; 2] = [Type::TEXT, Type::TEXT];

static RENEW: [Type; 5] = [
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
];

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Acquire,
    Release,
    Renew,
    Sweep,
}

impl Call {
    /// In the order of their declaration.
    const ALL: [Self; 4] = [Self::Acquire, Self::Release, Self::Renew, Self::Sweep];

    /// Those that are sent often, which are the first.
    const OFTEN: [Self; 3] = [Self::Acquire, Self::Release, Self::Renew];

    fn text(self, schema: &Schema) -> String {
        schema.fill(match self {
            Self::Acquire => "SELECT * FROM {schema}.acquire($1, $2, $3, $4, $5, $6, $7)",
            Self::Release => "SELECT {schema}.release($1, $2)",
            Self::Renew => "SELECT {schema}.renew($1, $2, $3, $4, $5)",
            Self::Sweep => "SELECT {schema}.sweep()",
        })
    }

    /// The same with the number of the request behind each row, and at least one row: before those of a renewal, there is
    /// one for the index 0, which no lease has.
    fn numbered(self, schema: &Schema) -> String {
        schema.fill(match self {
            Self::Acquire => "SELECT *, $8 FROM {schema}.acquire($1, $2, $3, $4, $5, $6, $7)",
            Self::Release => "SELECT {schema}.release($1, $2), $3",
            Self::Renew => {
                "SELECT index, $6 FROM (SELECT 0::bigint UNION ALL \
                 SELECT {schema}.renew($1, $2, $3, $4, $5)) renewed (index)"
            }
            Self::Sweep => "SELECT {schema}.sweep(), $1",
        })
    }

    /// Returns the types of its parameters.
    fn types(self) -> &'static [Type] {
        match self {
            Self::Acquire => &ACQUIRE,
            Self::Release => &RELEASE,
            Self::Renew => &RENEW,
            Self::Sweep => &[],
        }
    }
}

/// The reason why a request has no answer of its own.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The error of the server, or of the connection.
    Postgres(Error),
    /// The pooler has given it the answer to another request.
    OfOthers,
    /// The connection was given up before.
    Unsent,
    /// The store was closed.
    Closed,
}

impl Failure {
    /// Returns `true` if the server has answered with an error.
    pub(crate) fn is_of_server(&self) -> bool {
        matches!(self, Self::Postgres(error) if error.as_db_error().is_some())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Postgres(error)
    }
}

/// A connection, and the requests that it knows by name.
pub(crate) struct Line {
    client: Arc<Client>,
    /// Of each call.
    texts: [String; 4],
    /// None behind a pooler.
    prepared: Vec<Statement>,
    has_forgotten: AtomicBool,
    /// Behind a pooler.
    turns: Option<Turns>,
}

impl Line {
    /// Prepares the requests, unless a pooler is on the way, where they take turns.
    pub(crate) async fn on(
        client: Arc<Client>,
        schema: &Schema,
        turns: Option<Turns>,
    ) -> Result<Self, Error> {
        let is_pooled = turns.is_some();
        let texts = Call::ALL.map(|call| {
            if is_pooled {
                call.numbered(schema)
            } else {
                call.text(schema)
            }
        });
        let calls: &[Call] = if is_pooled { &[] } else { &Call::OFTEN };
        let asked = calls.iter().zip(&texts);
        let asked = asked.map(|(call, text)| client.prepare_typed(text, call.types()));
        let prepared = try_join_all(asked).await?;
        Ok(Self {
            client,
            texts,
            prepared,
            has_forgotten: AtomicBool::new(false),
            turns,
        })
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Returns `true` if an answer has shown that the connection has to be replaced.
    pub(crate) fn is_spent(&self) -> bool {
        self.turns.as_ref().is_some_and(Turns::is_spent)
    }

    /// Sees whether the server answers.
    pub(crate) async fn try_out(&self) -> Result<(), Failure> {
        match &self.turns {
            Some(turns) => turns.try_out(&self.client).await,
            None => Ok(self.client.check_connection().await?),
        }
    }

    /// Sends a request and returns its rows.
    pub(crate) async fn ask(
        &self,
        call: Call,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let text = &self.texts[call as usize];
        if let Some(turns) = &self.turns {
            let asked = turns.ask(&self.client, text, parameters, call.types());
            return asked.await;
        }
        if let Some(statement) = self.statement(call) {
            match self.client.query(statement, parameters).await {
                // It was not executed.
                Err(error) if errors::is_forgotten(&error) => {
                    self.has_forgotten.store(true, Ordering::Relaxed);
                }
                answer => return Ok(answer?),
            }
        }
        let types = call.types().iter().cloned();
        let parameters: Vec<_> = parameters.iter().copied().zip(types).collect();
        Ok(self.client.query_typed(text, &parameters).await?)
    }

    #[cfg(test)]
    pub(crate) fn is_prepared(&self, call: Call) -> bool {
        self.statement(call).is_some()
    }

    fn statement(&self, call: Call) -> Option<&Statement> {
        let statement = self.prepared.get(call as usize)?;
        (!self.has_forgotten.load(Ordering::Relaxed)).then_some(statement)
    }
}

#[cfg(test)]
mod tests {
    use dlock_testkit::PostgresServer;

    use super::*;

    async fn database(server: &PostgresServer) -> (String, Schema) {
        let name = server.database().await;
        let schema = Schema::new("dlock").unwrap();
        let migration = schema.migration(None).unwrap();
        let client = server.client(&name).await;
        client.batch_execute(&migration).await.unwrap();
        (name, schema)
    }

    #[test]
    fn a_request_finds_its_own_statement() {
        for (place, call) in Call::ALL.into_iter().enumerate() {
            assert_eq!(call as usize, place);
        }
        for (often, call) in Call::OFTEN.into_iter().zip(Call::ALL) {
            assert_eq!(often as usize, call as usize);
        }
    }

    /// An administrator may replace a function while programs run.
    #[tokio::test]
    async fn a_statement_whose_function_was_replaced_is_sent_as_text() {
        let server = PostgresServer::shared().await;
        let (name, schema) = database(server).await;
        let client = Arc::new(server.client(&name).await);
        let line = Line::on(client, &schema, None).await.unwrap();
        let parameters: [&(dyn ToSql + Sync); 2] = [&"order:42", &"none.1"];
        let rows = line.ask(Call::Release, &parameters).await.unwrap();
        assert!(!rows[0].get::<_, bool>(0));
        let replaced = "DROP FUNCTION dlock.release(text, text);
            CREATE FUNCTION dlock.release(text, text) RETURNS integer LANGUAGE sql AS 'SELECT 7'";
        server
            .client(&name)
            .await
            .batch_execute(replaced)
            .await
            .unwrap();
        for _ in 0..2 {
            let rows = line.ask(Call::Release, &parameters).await.unwrap();
            assert_eq!(rows[0].get::<_, i32>(0), 7);
        }
        assert!(!line.is_prepared(Call::Acquire));
    }
}
