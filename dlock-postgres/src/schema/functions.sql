-- Locks of dlock, version 1. `{schema}` stands for the name of the schema.
--
-- The row of `lock` is the mutex of a key: whoever changes holders or waiters locks it FOR NO KEY UPDATE first, in a
-- transaction of one statement. A row of `holder` is a lease. What changes leases without the mutex locks only that
-- row: a renewal FOR NO KEY UPDATE, a user's transaction that depends on the lease FOR KEY SHARE. A lease is removed
-- only by who gets its row FOR UPDATE without waiting, so nobody ever waits for a user's transaction.
--
-- The time is read after the mutex was locked, and never that of the transaction, which may be long ago.
--
-- A function that a manager calls has a search path of its own. The functions that only these call run under it. Each
-- looks for a few rows by their keys. A plan that was made while a table was small would read the whole table, and a
-- session keeps it while the table grows: a hot key grows it by a dead row for each grant. So they use the indices.
--
-- Under the mutex, a key gets no new holder or waiter from others: a request that has found none need not look again.

CREATE TABLE {schema}.lock (
    key text COLLATE "C" PRIMARY KEY,
    -- The last number that was given: a fence, or the number of a grant.
    last_fence bigint NOT NULL DEFAULT 0,
    -- The fence of the holders.
    epoch bigint NOT NULL DEFAULT 0,
    is_shared boolean NOT NULL DEFAULT false,
    used_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70);

CREATE TABLE {schema}.holder (
    key text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    ends timestamptz NOT NULL,
    label text,
    function text,
    PRIMARY KEY (key, owner)
) WITH (fillfactor = 70);

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
    PRIMARY KEY (key, owner)
) WITH (fillfactor = 70);

CREATE FUNCTION {schema}.version() RETURNS integer
LANGUAGE sql IMMUTABLE AS $$ SELECT 1 $$;

-- The next number for a key: the clock in units of 10 microseconds since 2024, or one more than the last. STABLE, as
-- `date_part` is: PostgreSQL makes a function part of its caller only if it promises no more than its parts.
CREATE FUNCTION {schema}.next_fence(_last bigint, _now timestamptz) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT greatest(_last + 1, floor((date_part('epoch', _now) - 1704067200) * 100000)::bigint)
$$;

-- Whether a key with this many holders lets in one more.
CREATE FUNCTION {schema}.admits(_most integer, _holders bigint, _is_shared boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN _most = 0 THEN _holders = 0
                WHEN _most < 0 THEN _holders = 0 OR _is_shared
                ELSE (_holders = 0 OR _is_shared) AND _holders < _most END
$$;

-- A commit that a crash may undo would give a lease to two. Returns the new setting, or null if it was right.
CREATE FUNCTION {schema}.commit_durably() RETURNS text
LANGUAGE sql AS $$
    SELECT CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END
$$;

-- Removes the leases of a key that have ended. One that somebody's transaction depends on is still held.
CREATE FUNCTION {schema}.remove_ended(_key text, _now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM {schema}.holder h WHERE h.key = _key AND h.ends <= _now) THEN
        DELETE FROM {schema}.holder h
        USING (SELECT e.owner FROM {schema}.holder e WHERE e.key = _key AND e.ends <= _now FOR UPDATE SKIP LOCKED) ended
        WHERE h.key = _key AND h.owner = ended.owner;
    END IF;
END $$;

-- The channel of a client. Everybody who may connect can listen and send, so it has only a part of the client's id.
CREATE FUNCTION {schema}.channel(_owner text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'dlock_' || left(_owner, 8) $$;

-- A message about a grant, with no part of the client's id. The hash over it and the id proves that it is from here. STABLE,
-- as `convert_to` is: otherwise it is planned again for each message.
CREATE FUNCTION {schema}.message(_owner text, _fence bigint, _number bigint, _key text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT concat_ws(' ', split_part(_owner, '.', 2), _fence, _number,
        left(encode(sha256(convert_to(concat_ws(' ', _fence, _number, _key, _owner), 'UTF8')), 'hex'), 32), _key)
$$;

CREATE FUNCTION {schema}.notify(_owner text, _fence bigint, _number bigint, _key text) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_notify({schema}.channel(_owner), {schema}.message(_owner, _fence, _number, _key))
$$;

-- Makes the living waiters at the head of the queue holders for three seconds, as long as the key lets them in, and
-- notifies them; 64 at most, and none behind `_before`. `_leaver` waits no more. The mutex is locked. Returns how many.
CREATE FUNCTION {schema}.grant_waiters(_key text, _now timestamptz, _before text, _leaver text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    _lock {schema}.lock;
    _next {schema}.waiter;
    _holders bigint;
    _granted integer := 0;
    _is_clean boolean;
    _told text;
BEGIN
    SELECT w.owner, w.most, l.last_fence, l.epoch, l.is_shared,
            (SELECT count(*) FROM {schema}.holder h WHERE h.key = _key),
            NOT EXISTS (SELECT FROM {schema}.waiter d WHERE d.key = _key AND (d.alive <= _now OR d.owner = _leaver))
        INTO _next.owner, _next.most, _lock.last_fence, _lock.epoch, _lock.is_shared, _holders, _is_clean
        FROM {schema}.waiter w JOIN {schema}.lock l USING (key)
        WHERE w.key = _key AND w.alive > _now AND w.owner IS DISTINCT FROM _leaver ORDER BY w.place LIMIT 1;
    IF _is_clean IS NOT TRUE THEN
        DELETE FROM {schema}.waiter w WHERE w.key = _key AND (w.alive <= _now OR w.owner = _leaver);
    END IF;
    IF _next.owner IS NULL OR _next.owner = _before THEN
        RETURN 0;
    END IF;
    WHILE _granted < 64 AND {schema}.admits(_next.most, _holders, _lock.is_shared) LOOP
        _lock.last_fence := {schema}.next_fence(_lock.last_fence, _now);
        IF _holders = 0 THEN
            _lock.epoch := _lock.last_fence;
            _lock.is_shared := _next.most <> 0;
        END IF;
        WITH granted AS (DELETE FROM {schema}.waiter w WHERE w.key = _key AND w.owner = _next.owner)
        INSERT INTO {schema}.holder (key, owner, fence, ends)
            VALUES (_key, _next.owner, _lock.epoch, _now + interval '3 seconds')
            RETURNING {schema}.notify(_next.owner, _lock.epoch, _lock.last_fence, _key) INTO _told;
        _granted := _granted + 1;
        _holders := _holders + 1;
        -- Nobody holds a key beside an exclusive holder.
        EXIT WHEN _next.most = 0;
        SELECT * INTO _next FROM {schema}.waiter w WHERE w.key = _key ORDER BY w.place LIMIT 1;
        EXIT WHEN NOT FOUND OR _next.owner = _before;
    END LOOP;
    IF _granted > 0 THEN
        UPDATE {schema}.lock l
            SET last_fence = _lock.last_fence, epoch = _lock.epoch, is_shared = _lock.is_shared, used_at = _now
            WHERE l.key = _key;
    END IF;
    RETURN _granted;
END $$;

-- Requests a lease. `_most` as in `waiter`. The place counts from 0 and is null for who does not wait.
CREATE FUNCTION {schema}.acquire(
    _key text, _owner text, _ttl_ms bigint, _most integer, _queue boolean, _label text, _function text,
    OUT is_granted boolean, OUT fence bigint, OUT last_fence bigint, OUT place bigint,
    OUT label text, OUT function text, OUT rest_ms bigint, OUT others bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz;
    _lock {schema}.lock;
    _own {schema}.holder;
    _first text;
    _gave boolean := false;
    _is_bound boolean := false;
    _holders bigint := 0;
    _earliest timestamptz;
    _number bigint;
    _message text;
    _setting text;
BEGIN
    LOOP
        SELECT * INTO _lock FROM {schema}.lock l WHERE l.key = _key FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO {schema}.lock (key) VALUES (_key) ON CONFLICT DO NOTHING;
    END LOOP;
    IF EXISTS (SELECT FROM {schema}.holder h WHERE h.key = _key)
        OR EXISTS (SELECT FROM {schema}.waiter w WHERE w.key = _key) THEN
        -- Not a lease that a transaction has adopted: this would wait for its end. And before other rows are locked: a
        -- renewal may have this one, and wait for those.
        PERFORM FROM {schema}.holder h WHERE h.key = _key AND h.owner = _owner FOR KEY SHARE SKIP LOCKED;
        IF FOUND THEN
            UPDATE {schema}.holder h
            SET ends = clock_timestamp() + _ttl_ms * interval '1 millisecond',
                label = coalesce(nullif(_label, ''), h.label),
                function = CASE WHEN _label = '' THEN h.function ELSE nullif(_function, '') END
            WHERE h.key = _key AND h.owner = _owner AND h.ends > clock_timestamp()
            RETURNING * INTO _own;
            IF FOUND THEN
                _setting := {schema}.commit_durably();
                is_granted := true;
                fence := _own.fence;
                RETURN;
            END IF;
        END IF;
        _now := clock_timestamp();
        PERFORM {schema}.remove_ended(_key, _now);
        -- The owner's last lease has ended, and a transaction still depends on it.
        _is_bound := EXISTS (SELECT FROM {schema}.holder h WHERE h.key = _key AND h.owner = _owner);
        _gave := {schema}.grant_waiters(_key, _now, _owner, NULL) > 0;
        IF _gave THEN
            SELECT * INTO STRICT _lock FROM {schema}.lock l WHERE l.key = _key;
        END IF;
        SELECT count(*), min(h.ends) INTO _holders, _earliest FROM {schema}.holder h WHERE h.key = _key;
        SELECT w.owner INTO _first FROM {schema}.waiter w WHERE w.key = _key ORDER BY w.place LIMIT 1;
    ELSE
        _now := clock_timestamp();
    END IF;
    IF NOT _is_bound AND (_first IS NULL OR _first = _owner) AND {schema}.admits(_most, _holders, _lock.is_shared) THEN
        IF _holders = 0 THEN
            _lock.last_fence := {schema}.next_fence(_lock.last_fence, _now);
            _lock.epoch := _lock.last_fence;
            _lock.is_shared := _most <> 0;
        END IF;
        WITH counted AS (
            UPDATE {schema}.lock l
            SET last_fence = _lock.last_fence, epoch = _lock.epoch, is_shared = _lock.is_shared, used_at = _now
            WHERE l.key = _key)
        INSERT INTO {schema}.holder (key, owner, fence, ends, label, function)
            VALUES (_key, _owner, _lock.epoch, _now + _ttl_ms * interval '1 millisecond',
                    nullif(_label, ''), nullif(_function, ''));
        IF _first IS NOT NULL THEN
            DELETE FROM {schema}.waiter w WHERE w.key = _key AND w.owner = _owner;
            IF _most <> 0 THEN
                PERFORM {schema}.grant_waiters(_key, _now, NULL, NULL);
            END IF;
        END IF;
        _setting := {schema}.commit_durably();
        is_granted := true;
        fence := _lock.epoch;
        RETURN;
    END IF;
    IF _queue AND NOT _is_bound THEN
        UPDATE {schema}.waiter w SET alive = _now + interval '3 seconds', most = _most
            WHERE w.key = _key AND w.owner = _owner;
        IF NOT FOUND THEN
            IF _most = 0 THEN
                _number := {schema}.next_fence(_lock.last_fence, _now);
                _message := {schema}.message(_owner, _number, _number, _key);
            END IF;
            INSERT INTO {schema}.waiter (key, owner, most, alive, since, label, number, message)
                VALUES (_key, _owner, _most, _now + interval '3 seconds', _now, nullif(_label, ''),
                        _number, _message);
        END IF;
    END IF;
    SELECT (SELECT count(*) FROM {schema}.waiter w WHERE w.key = _key AND w.place < own.place)
        INTO place FROM {schema}.waiter own WHERE own.key = _key AND own.owner = _owner;
    SELECT * INTO _own FROM {schema}.holder h WHERE h.key = _key ORDER BY h.ends DESC LIMIT 1;
    is_granted := false;
    fence := _own.fence;
    last_fence := _lock.last_fence;
    label := _own.label;
    function := _own.function;
    IF _most > 0 THEN
        _own.ends := _earliest;
    END IF;
    -- A lease that ended and is still held by a transaction: for how long is not known.
    IF _own.ends > _now THEN
        rest_ms := ceil(extract(epoch FROM _own.ends - _now) * 1000);
    END IF;
    others := greatest(_holders - 1, 0);
    IF _gave THEN
        _setting := {schema}.commit_durably();
    ELSE
        -- A crash may undo the place in the queue.
        _setting := set_config('synchronous_commit', 'off', true);
    END IF;
END $$;

-- Releases a lease, or leaves the queue. Refused with 55P03 while somebody's transaction depends on the lease.
CREATE FUNCTION {schema}.release(_key text, _owner text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    _now timestamptz;
    _ends timestamptz;
    _is_awaited boolean;
    _is_shared boolean;
    _fence bigint;
    _next {schema}.waiter;
    _gave boolean := false;
    _told text;
    _setting text;
BEGIN
    SELECT l.last_fence INTO _fence FROM {schema}.lock l WHERE l.key = _key FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM {schema}.holder h
        WHERE h.ctid = (SELECT o.ctid FROM {schema}.holder o
                        WHERE o.key = _key AND o.owner = _owner FOR UPDATE SKIP LOCKED)
        RETURNING h.ends, EXISTS (SELECT FROM {schema}.waiter w WHERE w.key = _key),
            EXISTS (SELECT FROM {schema}.holder o WHERE o.key = _key AND o.owner <> _owner)
        INTO _ends, _is_awaited, _is_shared;
    IF NOT FOUND THEN
        -- Wait for a renewal that is under way, which does not take long, but not for a transaction: neither for one that
        -- has adopted the lease, nor for one that has fenced it.
        PERFORM FROM {schema}.holder h WHERE h.key = _key AND h.owner = _owner FOR KEY SHARE NOWAIT;
        PERFORM FROM {schema}.holder h WHERE h.key = _key AND h.owner = _owner FOR NO KEY UPDATE;
        PERFORM FROM {schema}.holder h WHERE h.key = _key AND h.owner = _owner FOR UPDATE NOWAIT;
        DELETE FROM {schema}.holder h WHERE h.key = _key AND h.owner = _owner RETURNING h.ends INTO _ends;
        _is_awaited := true;
        _is_shared := true;
    END IF;
    _now := clock_timestamp();
    IF _is_awaited AND NOT _is_shared THEN
        SELECT w.owner, w.most, w.number, w.message
            INTO _next.owner, _next.most, _next.number, _next.message FROM {schema}.waiter w
            WHERE w.key = _key AND w.alive > _now ORDER BY w.place LIMIT 1;
    END IF;
    IF _next.most = 0 THEN
        -- The usual grant, as `grant_waiters` makes it, in fewer statements: the key has no holder, this waiter will be the
        -- only one, and the owner of the lease is in no queue.
        -- The row of a key without a last fence was lost with its fences.
        IF _fence > 0 AND _next.number > _fence THEN
            _fence := _next.number;
        ELSE
            _fence := {schema}.next_fence(_fence, _now);
            _next.message := {schema}.message(_next.owner, _fence, _fence, _key);
        END IF;
        WITH granted AS (
                DELETE FROM {schema}.waiter w WHERE w.key = _key AND (w.owner = _next.owner OR w.alive <= _now)),
            counted AS (
                UPDATE {schema}.lock l SET last_fence = _fence, epoch = _fence, is_shared = false, used_at = _now
                WHERE l.key = _key)
        INSERT INTO {schema}.holder (key, owner, fence, ends)
            VALUES (_key, _next.owner, _fence, _now + interval '3 seconds')
            RETURNING pg_notify({schema}.channel(_next.owner), _next.message) INTO _told;
        _gave := true;
    ELSE
        IF _is_shared THEN
            PERFORM {schema}.remove_ended(_key, _now);
        END IF;
        IF _is_awaited THEN
            _gave := {schema}.grant_waiters(_key, _now, NULL, _owner) > 0;
        END IF;
    END IF;
    IF _gave THEN
        _setting := {schema}.commit_durably();
    ELSE
        -- If a crash undoes it, the lease lasts until its end.
        _setting := set_config('synchronous_commit', 'off', true);
    END IF;
    RETURN coalesce(_ends > _now, false);
END $$;

-- Renews leases, without the mutex. Returns the indices, from 1, of those that are still held.
CREATE FUNCTION {schema}.renew(
    _keys text[], _owners text[], _ttls_ms bigint[], _labels text[], _functions text[]) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    _due record;
BEGIN
    PERFORM {schema}.commit_durably();
    -- In one order, so that a late copy of this batch and this one do not wait for each other.
    FOR _due IN
        SELECT * FROM unnest(_keys, _owners, _ttls_ms, _labels, _functions) WITH ORDINALITY
            AS due (key, owner, ttl_ms, label, function, index)
        ORDER BY due.key COLLATE "C", due.owner COLLATE "C"
    LOOP
        -- Not a lease that a transaction has adopted: the others, and requests that wait for them with the mutex of
        -- their keys, would wait for its end. And not of several at once: a release that finds only this lock is refused.
        PERFORM FROM {schema}.holder h WHERE h.key = _due.key AND h.owner = _due.owner FOR KEY SHARE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        UPDATE {schema}.holder h
            SET ends = clock_timestamp() + _due.ttl_ms * interval '1 millisecond',
                label = coalesce(nullif(_due.label, ''), h.label),
                function = CASE WHEN _due.label = '' THEN h.function ELSE nullif(_due.function, '') END
            WHERE h.key = _due.key AND h.owner = _due.owner AND h.ends > clock_timestamp();
        IF FOUND THEN
            RETURN NEXT _due.index;
        END IF;
    END LOOP;
END $$;

-- Checks leases in the caller's transaction, and keeps anybody else from getting their keys before it ends. Returns the
-- first key that is not held, or null.
CREATE FUNCTION {schema}.fence(_keys text[], _owners text[], _fences bigint[]) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    _due record;
BEGIN
    -- Without a list to sort, it costs little more than a statement that does nothing.
    IF cardinality(_keys) = 1 THEN
        PERFORM FROM {schema}.holder h
            WHERE h.key = _keys[1] AND h.owner = _owners[1] AND h.fence = _fences[1] FOR KEY SHARE;
        RETURN CASE WHEN NOT FOUND THEN _keys[1] END;
    END IF;
    FOR _due IN SELECT * FROM unnest(_keys, _owners, _fences) AS due (key, owner, fence) ORDER BY 1, 2 LOOP
        -- Not by the time: as long as the row is there, nobody else has got the key.
        PERFORM FROM {schema}.holder h
            WHERE h.key = _due.key AND h.owner = _due.owner AND h.fence = _due.fence FOR KEY SHARE;
        IF NOT FOUND THEN
            RETURN _due.key;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- Makes a lease part of the caller's transaction: it is held until the transaction ends, and ends with its commit.
CREATE FUNCTION {schema}.adopt(_key text, _owner text, _fence bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM {schema}.holder h WHERE h.key = _key AND h.owner = _owner AND h.fence = _fence;
    RETURN FOUND;
END $$;

-- An operator's release of the lease that was seen, or without an owner of all that share the lock under this fence.
-- Returns whether there was one; the old holders are notified. Refused with 55P03 while a transaction depends on one.
CREATE FUNCTION {schema}.unlock(_key text, _owner text, _fence bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    _now timestamptz;
    _each text;
BEGIN
    PERFORM FROM {schema}.lock l WHERE l.key = _key FOR NO KEY UPDATE;
    -- First refuse a lease that a transaction has adopted: the next lock would wait for its end. Then wait for a renewal
    -- that is under way, which does not take long.
    PERFORM FROM {schema}.holder h
        WHERE h.key = _key AND h.owner = coalesce(_owner, h.owner) AND h.fence = _fence
        ORDER BY h.owner FOR KEY SHARE NOWAIT;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM {schema}.holder h
        WHERE h.key = _key AND h.owner = coalesce(_owner, h.owner) AND h.fence = _fence
        ORDER BY h.owner FOR NO KEY UPDATE;
    PERFORM FROM {schema}.holder h
        WHERE h.key = _key AND h.owner = coalesce(_owner, h.owner) AND h.fence = _fence
        ORDER BY h.owner FOR UPDATE NOWAIT;
    _now := clock_timestamp();
    FOR _each IN
        DELETE FROM {schema}.holder h
            WHERE h.key = _key AND h.owner = coalesce(_owner, h.owner) AND h.fence = _fence RETURNING h.owner
    LOOP
        PERFORM {schema}.notify(_each, 0, 0, _key);
    END LOOP;
    PERFORM {schema}.remove_ended(_key, _now);
    PERFORM {schema}.grant_waiters(_key, _now, NULL, NULL);
    PERFORM {schema}.commit_durably();
    RETURN true;
END $$;

-- Removes what is left over: leases that ended and waiters that died a minute ago, and keys that have not been used for an
-- hour. A fence that is forgotten is replaced by the clock. Returns the most rows that it has removed from one table.
CREATE FUNCTION {schema}.sweep() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _removed bigint;
    _most bigint;
BEGIN
    DELETE FROM {schema}.holder h
    USING (SELECT e.key, e.owner FROM {schema}.holder e
           WHERE e.ends < clock_timestamp() - interval '1 minute' LIMIT 1000 FOR UPDATE SKIP LOCKED) ended
    WHERE h.key = ended.key AND h.owner = ended.owner;
    GET DIAGNOSTICS _most = ROW_COUNT;
    DELETE FROM {schema}.waiter w
    USING (SELECT d.key, d.owner FROM {schema}.waiter d
           WHERE d.alive < clock_timestamp() - interval '1 minute' LIMIT 1000 FOR UPDATE SKIP LOCKED) dead
    WHERE w.key = dead.key AND w.owner = dead.owner;
    GET DIAGNOSTICS _removed = ROW_COUNT;
    _most := greatest(_most, _removed);
    DELETE FROM {schema}.lock l
    USING (SELECT o.key FROM {schema}.lock o
           WHERE o.used_at < clock_timestamp() - interval '1 hour'
             -- The clock may have been set back since: the next fence would not be greater.
             AND o.last_fence < {schema}.next_fence(0, clock_timestamp())
             -- A request that comes just now may leave a waiter without this row, and makes it again when it polls.
             AND NOT EXISTS (SELECT FROM {schema}.holder h WHERE h.key = o.key)
             AND NOT EXISTS (SELECT FROM {schema}.waiter w WHERE w.key = o.key)
           LIMIT 1000 FOR UPDATE SKIP LOCKED) old
    WHERE l.key = old.key;
    GET DIAGNOSTICS _removed = ROW_COUNT;
    RETURN greatest(_most, _removed);
END $$;
