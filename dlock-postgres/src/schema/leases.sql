-- The leases, and those who wait for one.

CREATE TABLE {schema}.holder (
    key text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    ends timestamptz NOT NULL,
    label text,
    function text,
    -- That of its grant.
    number bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, key)
) WITH (fillfactor = 70);

CREATE INDEX holder_number ON {schema}.holder (key, number) WHERE number >= 0;

-- Not logged: after a crash the waiters ask again. It has to be so: a waiter's fence must not outlive the grants that a failover
-- has undone.
CREATE UNLOGGED TABLE {schema}.waiter (
    key text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    -- 0 for exclusive, -1 for shared, otherwise the number of permits.
    most integer NOT NULL,
    alive timestamptz NOT NULL,
    -- For operators: since when it waits, and the process.
    since timestamptz NOT NULL,
    label text,
    -- The fence of an exclusive grant to it, if no greater one is given before, and the message about that grant: its hash
    -- takes time, and a release is what others wait for.
    number bigint,
    message text,
    PRIMARY KEY (owner, key)
) WITH (fillfactor = 70);

CREATE INDEX waiter_place ON {schema}.waiter (key, place) WHERE place >= 0;
