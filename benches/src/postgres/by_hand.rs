//! A lock in PostgreSQL as a careful engineer writes it: a row with an owner and an end, and one statement for each
//! request.
//!
//! Its commits are as durable as those of dlock: a grant is flushed to the disk, a release that wakes nobody is not.

use tokio_postgres::{Client, Statement, types::Type};

use crate::Failure;

pub(super) const TABLES: &str = r#"
CREATE TABLE lease (
    key text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    ends timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE UNLOGGED TABLE queue (
    key text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (key, owner)
) WITH (fillfactor = 70);
CREATE TABLE account (id integer PRIMARY KEY, cents bigint NOT NULL) WITH (fillfactor = 70);
INSERT INTO account VALUES (7, 100);
"#;

const ACQUIRE: &str = "\
INSERT INTO lease AS l (key, owner, fence, ends)
VALUES ($1, $2, 1, clock_timestamp() + $3 * interval '1 millisecond')
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, fence = l.fence + 1, ends = excluded.ends
    WHERE l.ends < clock_timestamp()
RETURNING fence";

const RELEASE: &str = "\
UPDATE lease SET ends = '-infinity'
WHERE key = $1 AND owner = $2 AND set_config('synchronous_commit', 'off', true) = 'off'
RETURNING fence";

/// A lease for [`CHECK`].
pub(super) const HELD: &str = "\
INSERT INTO lease (key, owner, fence, ends) VALUES ('account:7', 'one', 1, 'infinity') ON CONFLICT DO NOTHING";

/// Finds a lease, and keeps it until the end of the transaction.
pub(super) const CHECK: &str = "\
SELECT 1 FROM lease WHERE key = $1 AND owner = $2 AND fence = $3 FOR KEY SHARE";

const TTL_MS: i64 = 30_000;

/// How a statement gets to the server.
pub(super) enum Sent {
    /// With its text each time, as dlock sends it: that works behind every pooler.
    Whole,
    /// Parsed once for the connection, which a pooler in transaction mode may not keep.
    Prepared {
        acquire: Statement,
        release: Statement,
    },
}

impl Sent {
    pub(super) async fn prepared(client: &Client) -> Result<Self, Failure> {
        let types = [Type::TEXT, Type::TEXT, Type::INT8];
        Ok(Self::Prepared {
            acquire: client.prepare_typed(ACQUIRE, &types).await?,
            release: client.prepare_typed(RELEASE, &types[..2]).await?,
        })
    }

    /// Acquires a free key and releases it.
    pub(super) async fn cycle(
        &self,
        client: &Client,
        key: &str,
        owner: &str,
    ) -> Result<(), Failure> {
        let (granted, released) = match self {
            Self::Whole => {
                let lease = [
                    (&key as _, Type::TEXT),
                    (&owner as _, Type::TEXT),
                    (&TTL_MS as _, Type::INT8),
                ];
                let granted = client.query_typed(ACQUIRE, &lease).await?;
                (granted, client.query_typed(RELEASE, &lease[..2]).await?)
            }
            Self::Prepared { acquire, release } => {
                let granted = client.query(acquire, &[&key, &owner, &TTL_MS]).await?;
                (granted, client.query(release, &[&key, &owner]).await?)
            }
        };
        if granted.len() == 1 && released.len() == 1 {
            Ok(())
        } else {
            Err("a free key was not acquired, or not released".into())
        }
    }
}
