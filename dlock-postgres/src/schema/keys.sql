-- Locks of dlock, version 2. `{schema}` stands for the name of the schema.
--
-- The row of `mutex` is the mutex of a key: whoever changes holders or waiters locks it FOR NO KEY UPDATE first, in a
-- transaction of one statement. A row of `holder` is a lease. What changes leases without the mutex locks only that
-- row: a renewal FOR NO KEY UPDATE, a user's transaction that depends on the lease FOR KEY SHARE. A lease is removed
-- only by who gets its row FOR UPDATE without waiting, so nobody ever waits for a user's transaction.
--
-- The time is read after the mutex was locked, and never that of the transaction, which may be long ago.
--
-- An open snapshot, of a backup or of an idle transaction, keeps the dead versions of all rows. No request walks those of its key:
-- the mutex is locked and not changed, the last version of a `turn` is the first in its index, and holders and waiters are
-- looked for from the numbers on that the turn notes. Below these there are none. From there on there are a few dead ones: of
-- those who have shared the lock beside its oldest holder, and of waiters that have left.
--
-- A function that a manager calls has a search path of its own. The functions that only these call run under it. Each
-- looks for a few rows by their keys. A plan that was made while a table was small would read the whole table, and a
-- session keeps it while the table grows. So they use the indices.
--
-- Under the mutex, a key gets no new holder or waiter from others: a request that has found none need not look again.

CREATE TABLE {schema}.mutex (
    key text COLLATE "C" PRIMARY KEY,
    -- Not exactly: for keys that are not used any more.
    used_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX mutex_used_at ON {schema}.mutex (used_at);

-- The state of a key since its last grant.
CREATE TABLE {schema}.turn (
    key text COLLATE "C" NOT NULL,
    -- The last number that was given: a fence, or the number of a grant.
    last_fence bigint NOT NULL DEFAULT 0,
    -- The fence of the holders.
    epoch bigint NOT NULL DEFAULT 0,
    is_shared boolean NOT NULL DEFAULT false,
    -- When that grant was made.
    granted_at timestamptz,
    -- No holder has a lower number.
    least bigint NOT NULL DEFAULT 0,
    -- No waiter has a lower place.
    head bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (key, last_fence)
);

-- One row: when the next sweep is due. Who sweeps locks it.
CREATE TABLE {schema}.sweeping (due timestamptz NOT NULL);
INSERT INTO {schema}.sweeping VALUES (clock_timestamp());
