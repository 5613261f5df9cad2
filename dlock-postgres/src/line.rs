//! The requests on one connection.
//!
//! On a direct connection they are prepared once. Behind a pooler they have no name, which may meet another client's
//! statement there, and take turns.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::try_join_all;
use tokio_postgres::{Client, Error, Row, Statement, types::ToSql};

use crate::{
    calls::{Call, Failure},
    errors,
    pooled::{Turns, numbered},
    schema::Schema,
};

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
                numbered(call, schema)
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
            return turns.call(&self.client, call, text, parameters).await;
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
