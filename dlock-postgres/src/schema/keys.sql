-- Locks of dlock, version 2. `{schema}` stands for the name of the schema.
--
-- The row of `turn` is the mutex of a key: whoever changes holders or waiters locks it FOR NO KEY UPDATE first, in a
-- transaction of one statement. A row of `holder` is a lease. What changes leases without the mutex locks only that
-- row: a renewal FOR NO KEY UPDATE, a user's transaction that depends on the lease FOR KEY SHARE. A lease is removed
-- only by who gets its row FOR UPDATE without waiting, so nobody ever waits for a user's transaction.
--
-- The time is read after the mutex was locked, and never that of the transaction, which may be long ago.
--
-- An open snapshot, of a backup or of an idle transaction, keeps the dead versions of all rows. No request walks those of its key:
-- the last version of a turn is the last in its index, and holders and waiters are looked for from the numbers on that the turn
-- notes. Below these there are none. From there on there are a few dead ones: of those who have shared the lock beside its
-- oldest holder, and of waiters that have left. So that no plan takes another index, the primary keys begin with the owner, and
-- the other indices are for conditions that only such searches have.
--
-- A function that a manager calls has a search path of its own. The functions that only these call run under it. Each
-- looks for a few rows by their keys. A plan that was made while a table was small would read the whole table, and a
-- session keeps it while the table grows. So they use the indices.
--
-- Under the mutex, a key gets no new holder or waiter from others: a request that has found none need not look again.

-- The state of a key since its last grant.
CREATE TABLE {schema}.turn (
    key text COLLATE "C" NOT NULL,
    -- The last number that was given: a fence, or the number of a grant.
    last_fence bigint NOT NULL DEFAULT 0,
    -- The fence of the holders.
    epoch bigint NOT NULL DEFAULT 0,
    is_shared boolean NOT NULL DEFAULT false,
    -- When that grant was made, or the row.
    granted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- No holder has a lower number.
    least bigint NOT NULL DEFAULT 0,
    -- No waiter has a lower place.
    head bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (key, last_fence)
);

-- One row. Who sweeps locks it.
CREATE TABLE {schema}.sweep_state (
    due timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The last key that was looked at.
    after text COLLATE "C" NOT NULL DEFAULT ''
);
INSERT INTO {schema}.sweep_state DEFAULT VALUES;
