//! Ends exactly the leases that an operator has seen.

use std::collections::BTreeSet;

use dlock_admin::{LockInfo, Unlocked};
use dlock_runtime::{
    LockMode,
    store::{OwnerId, StoreError, StoreErrorKind},
};
use tokio_postgres::{Client, types::Type};

use super::{
    link::{Purpose, connect, field, within},
    relied,
};
use crate::config::Config;

/// A connection that stops in mid-transaction must not keep the mutex of a key. Behind a pooler, the level would be that of
/// the role.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
                     SET LOCAL search_path = pg_catalog, pg_temp; \
                     SET LOCAL idle_in_transaction_session_timeout = '5s'";

/// Those who have the lock, also by a lease that has ended.
const OWNERS: &str = "SELECT h.owner FROM {schema}.holder h WHERE h.key = $1 AND h.number >= 0";

/// Ends the lease of `holder` in `seen`, or those of all holders.
pub(super) async fn unlock(
    config: &Config,
    seen: &LockInfo,
    holder: Option<OwnerId>,
) -> Result<Unlocked, StoreError> {
    let mut holders = seen.holders();
    let lease = match holder {
        Some(owner) => holders.find(|it| it.owner == Some(owner)),
        None => holders.next(),
    };
    let Some(lease) = lease else {
        return Ok(Unlocked::Changed);
    };
    // All that share a lock have the same fence.
    let is_all = holder.is_none() && seen.mode == Some(LockMode::Shared);
    let owner = lease.owner.filter(|_| !is_all).map(|it| it.to_string());
    let fence = i64::try_from(lease.fence).unwrap_or(i64::MAX);
    // Dropped before its end, the connection rolls the transaction back.
    let connected = connect(config, Purpose::Writing).await?;
    connected.trust(config).await?;
    match in_transaction(
        config,
        &connected.client,
        &seen.key,
        owner.as_deref(),
        fence,
    )
    .await
    {
        Err(Refusal::Relied) => {
            let text = relied::explain(config, &connected, &seen.key).await;
            let error = StoreError::new(StoreErrorKind::Refused, text).with_advice();
            Err(error.without_effect())
        }
        Err(Refusal::Other(error)) => Err(error),
        Ok(unlocked) => Ok(unlocked),
    }
}

enum Refusal {
    /// A transaction depends on the lease.
    Relied,
    Other(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

async fn in_transaction(
    config: &Config,
    client: &Client,
    key: &str,
    owner: Option<&str>,
    fence: i64,
) -> Result<Unlocked, Refusal> {
    within(config, client.batch_execute(BEGIN)).await?;
    let before = owners(config, client, key).await?;
    let statement = config.schema.fill("SELECT {schema}.unlock($1, $2, $3)");
    let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] = [
        (&key, Type::TEXT),
        (&owner, Type::TEXT),
        (&fence, Type::INT8),
    ];
    let asked = async { Ok(client.query_typed_one(&statement, &parameters).await) };
    let row = match within(config, asked).await? {
        Ok(row) => row,
        Err(error) if is_relied(&error) => {
            within(config, client.batch_execute("ROLLBACK")).await?;
            return Err(Refusal::Relied);
        }
        Err(error) => return Err(crate::errors::of_request(&error, config).into()),
    };
    let was_there: bool = field(&row, 0, "unlock")?;
    // The transaction still has the mutex of the key, so this is the result of the release alone.
    let after = owners(config, client, key).await?;
    within(config, client.batch_execute("COMMIT")).await?;
    Ok(if !was_there {
        Unlocked::Changed
    } else if !after.is_subset(&before) {
        Unlocked::Granted
    } else if after.is_empty() {
        Unlocked::Freed
    } else {
        Unlocked::StillShared
    })
}

async fn owners(
    config: &Config,
    client: &Client,
    key: &str,
) -> Result<BTreeSet<String>, StoreError> {
    let statement = config.schema.fill(OWNERS);
    let asked = async { client.query_typed(&statement, &[(&key, Type::TEXT)]).await };
    let rows = within(config, asked).await?;
    rows.iter().map(|row| field(row, 0, "owner")).collect()
}

fn is_relied(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|it| {
        // A `lock_timeout` has the same code.
        it.code().code() == "55P03" && it.routine() != Some("ProcessInterrupts")
    })
}
