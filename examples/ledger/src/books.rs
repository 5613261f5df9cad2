//! The accounts with the history of their entries, and an audit of both.

use std::{
    error::Error,
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use dlock_postgres::Schema;
use tokio_postgres::{Client, NoTls};

use crate::transfer::money;

/// The balance of each account at the begin.
const OPENING: i64 = 100_000;

const TABLES: &str = "
    CREATE TABLE account (id integer PRIMARY KEY, cents bigint NOT NULL);
    CREATE TABLE entry (
        id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        account integer NOT NULL REFERENCES account,
        cents   bigint NOT NULL,
        -- The balance after this entry.
        balance bigint NOT NULL
    );";

/// The balance of each account, the one that follows from its entries, and the number of entries that do not follow
/// from the entry before.
const AUDIT: &str = "
    WITH history AS (
        SELECT account, cents, balance, lag(balance, 1, $1::bigint) OVER (PARTITION BY account ORDER BY id) AS before
        FROM entry)
    SELECT a.id, a.cents, ($1::bigint + coalesce(sum(h.cents), 0))::bigint, count(h.account),
           count(*) FILTER (WHERE h.balance <> h.before + h.cents)
    FROM account a LEFT JOIN history h ON h.account = a.id
    GROUP BY a.id ORDER BY a.id";

/// Tables in a schema of their own, beside those of the locks.
pub(crate) struct Books {
    pub(crate) schema: String,
    pub(crate) db: Client,
}

/// Connects to the tables in a schema. The connection is not encrypted.
pub(crate) async fn connect(url: &str, schema: &str) -> Result<Client, Box<dyn Error>> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let path = format!("SET search_path TO {schema}");
    client.batch_execute(&path).await?;
    Ok(client)
}

impl Books {
    /// Creates the tables.
    pub(crate) async fn open(url: &str) -> Result<Self, Box<dyn Error>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let schema = format!("ledger_{:x}", now.as_nanos());
        let db = connect(url, &schema)
            .await
            .map_err(|error| format!("cannot connect to PostgreSQL: {}", whole(&*error)))?;
        let books = Self { schema, db };
        if let Err(error) = books.create().await {
            books.remove().await.ok();
            let error = whole(&*error);
            return Err(format!("cannot create a schema and its tables: {error}").into());
        }
        Ok(books)
    }

    async fn create(&self) -> Result<(), Box<dyn Error>> {
        let schema = &self.schema;
        let create = format!("CREATE SCHEMA {schema}; {TABLES}");
        self.db.batch_execute(&create).await?;
        let locks = Schema::new(schema)?.migration(None)?;
        self.db.batch_execute(&locks).await?;
        let fill =
            format!("INSERT INTO account SELECT id, {OPENING} FROM generate_series(1, 3) id");
        Ok(self.db.batch_execute(&fill).await?)
    }

    /// Removes all that was created.
    pub(crate) async fn remove(&self) -> Result<(), tokio_postgres::Error> {
        let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
        self.db.batch_execute(&drop).await
    }

    pub(crate) async fn audit(&self) -> Result<Audit, tokio_postgres::Error> {
        let rows = self.db.query(AUDIT, &[&OPENING]).await?;
        let accounts: Vec<Account> = rows
            .iter()
            .map(|row| Account {
                id: row.get(0),
                balance: row.get(1),
                from_entries: row.get(2),
                entries: row.get(3),
                breaks: row.get(4),
            })
            .collect();
        Ok(Audit::of(accounts))
    }
}

/// The error with its causes, which have the server's message.
fn whole(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

#[derive(Clone, Debug)]
struct Account {
    id: i32,
    balance: i64,
    from_entries: i64,
    entries: i64,
    breaks: i64,
}

impl Account {
    fn is_right(&self) -> bool {
        self.balance == self.from_entries && self.breaks == 0
    }
}

pub(crate) struct Audit {
    accounts: Vec<Account>,
    pub(crate) transfers: i64,
    sum: i64,
    opening: i64,
}

impl Audit {
    fn of(accounts: Vec<Account>) -> Self {
        let entries: i64 = accounts.iter().map(|it| it.entries).sum();
        let opening = accounts.iter().map(|_| OPENING).sum();
        Self {
            transfers: entries / 2,
            sum: accounts.iter().map(|it| it.balance).sum(),
            opening,
            accounts,
        }
    }

    /// The sum has not changed, and each balance follows from the entries of its account, one after the other.
    pub(crate) fn is_right(&self) -> bool {
        self.sum == self.opening && self.accounts.iter().all(Account::is_right)
    }

    /// The fault, for books that are not right.
    pub(crate) fn fault(&self) -> String {
        let breaks: i64 = self.accounts.iter().map(|it| it.breaks).sum();
        let accounts = self.accounts.iter().filter(|it| !it.is_right()).count();
        format!(
            "the balances add up to {} instead of {}; {accounts} accounts do not agree with their entries, \
             {breaks} entries do not follow from the entry before: updates were lost",
            money(self.sum),
            money(self.opening)
        )
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "           balance  by entries")?;
        for account in &self.accounts {
            let (balance, from_entries) = (money(account.balance), money(account.from_entries));
            writeln!(f, "account {} {balance:>8} {from_entries:>11}", account.id)?;
        }
        let from_entries = self.accounts.iter().map(|it| it.from_entries).sum();
        writeln!(
            f,
            "sum       {:>8} {:>11}",
            money(self.sum),
            money(from_entries)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audit(third: i64, breaks: i64) -> Audit {
        let account = |id, balance| Account {
            id,
            balance,
            from_entries: OPENING,
            entries: 2,
            breaks: 0,
        };
        let mut last = account(3, third);
        last.breaks = breaks;
        Audit::of(vec![account(1, OPENING), account(2, OPENING), last])
    }

    #[test]
    fn each_fault_of_the_books_is_found() {
        let right = audit(OPENING, 0);
        assert!(right.is_right());
        assert_eq!(right.transfers, 3);
        assert!(!audit(OPENING + 1, 0).is_right());
        assert!(!audit(OPENING, 1).is_right());
        let fault = audit(OPENING + 1, 1).fault();
        assert!(
            fault.contains("3000.01 instead of 3000.00; 1 accounts"),
            "{fault}"
        );
    }
}
