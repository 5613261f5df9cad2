-- From version 1 to 2, under programs that run. `{name}` stands for the name of the schema as a text. The tables are locked, and
-- those of version 2 that are new are there. Requests that were waiting go on with the functions that they have begun with, which
-- fail as `lock` is gone, and are sent again.

-- What a sweep would keep, whatever its age. The fence of another key is replaced by the clock.
INSERT INTO {schema}.turn (key, last_fence, epoch, is_shared, granted_at)
    SELECT l.key, l.last_fence, l.epoch, l.is_shared, l.used_at FROM {schema}.lock l
    WHERE l.last_fence >= {schema}.next_fence(0, clock_timestamp())
        OR EXISTS (SELECT FROM {schema}.holder h WHERE h.key = l.key)
        OR EXISTS (SELECT FROM {schema}.waiter w WHERE w.key = l.key);

ALTER TABLE {schema}.holder ADD COLUMN number bigint NOT NULL DEFAULT 0,
    DROP CONSTRAINT holder_pkey, ADD PRIMARY KEY (owner, key);
CREATE INDEX holder_number ON {schema}.holder (key, number) WHERE number >= 0;
ALTER TABLE {schema}.waiter DROP CONSTRAINT waiter_pkey, ADD PRIMARY KEY (owner, key);
CREATE INDEX waiter_place ON {schema}.waiter (key, place) WHERE place >= 0;

-- Who reads the locks, reads their turns as well.
DO $$
DECLARE
    _role text;
BEGIN
    FOR _role IN
        SELECT coalesce(quote_ident(r.rolname::text), 'PUBLIC') FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        CROSS JOIN LATERAL aclexplode(c.relacl) a
        LEFT JOIN pg_roles r ON r.oid = a.grantee
        WHERE n.nspname = {name} AND c.relname = 'lock' AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT ON TABLE %I.turn TO %s', {name}, _role);
    END LOOP;
END $$;

DROP TABLE {schema}.lock;
DROP FUNCTION {schema}.remove_ended(text, timestamptz);
