-- The functions. Programs of earlier versions call those that they know.

CREATE FUNCTION {schema}.version() RETURNS integer
LANGUAGE sql IMMUTABLE AS $$ SELECT 2 $$;

-- The oldest program that these functions are for.
CREATE FUNCTION {schema}.oldest() RETURNS integer
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

-- Makes the row of a key that is used for the first time, or after a sweep. Two that do it at once wait for each other by the
-- primary key, until the first one has made its grant and the second one finds the row.
CREATE FUNCTION {schema}.make_turn(_key text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.turn (key) VALUES (_key) ON CONFLICT DO NOTHING;
    DELETE FROM {schema}.turn t WHERE t.key = _key AND t.last_fence = 0
        AND EXISTS (SELECT FROM {schema}.turn o WHERE o.key = _key AND o.last_fence > 0);
END $$;

-- Removes the leases of a key that have ended. One that somebody's transaction depends on is still held.
CREATE FUNCTION {schema}.remove_ended(_key text, _least bigint, _now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM {schema}.holder h WHERE h.key = _key AND h.number >= _least AND h.number >= 0 AND h.ends <= _now) THEN
        DELETE FROM {schema}.holder h
        USING (SELECT e.owner FROM {schema}.holder e
               WHERE e.key = _key AND e.number >= _least AND e.number >= 0 AND e.ends <= _now FOR UPDATE SKIP LOCKED) ended
        WHERE h.key = _key AND h.owner = ended.owner;
    END IF;
END $$;

-- Sets a new end of a lease that has not ended, without the mutex. Returns its fence, or null. Not one of a lease that a
-- transaction has adopted: this would wait for its end. An empty label changes nothing.
CREATE FUNCTION {schema}.extend(_key text, _owner text, _ttl_ms bigint, _label text, _function text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    _fence bigint;
BEGIN
    PERFORM FROM {schema}.holder h WHERE h.key = _key AND h.owner = _owner FOR KEY SHARE SKIP LOCKED;
    IF FOUND THEN
        UPDATE {schema}.holder h
        SET ends = clock_timestamp() + _ttl_ms * interval '1 millisecond',
            label = coalesce(nullif(_label, ''), h.label),
            function = CASE WHEN _label = '' THEN h.function ELSE nullif(_function, '') END
        WHERE h.key = _key AND h.owner = _owner AND h.ends > clock_timestamp()
        RETURNING h.fence INTO _fence;
    END IF;
    RETURN _fence;
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

-- Returns the first living waiter, or null, and removes the dead ones before it. The mutex is locked.
CREATE FUNCTION {schema}.first_waiter(_key text, _head bigint, _now timestamptz) RETURNS {schema}.waiter
LANGUAGE plpgsql AS $$
DECLARE
    _first {schema}.waiter;
BEGIN
    SELECT * INTO _first FROM {schema}.waiter w WHERE w.key = _key AND w.place >= _head AND w.place >= 0 ORDER BY w.place LIMIT 1;
    IF _first.alive <= _now THEN
        SELECT * INTO _first FROM {schema}.waiter w
            WHERE w.key = _key AND w.place >= _head AND w.place >= 0 AND w.alive > _now ORDER BY w.place LIMIT 1;
        DELETE FROM {schema}.waiter w
            WHERE w.key = _key AND w.place >= _head AND w.place >= 0 AND (_first.place IS NULL OR w.place < _first.place);
    END IF;
    RETURN _first;
END $$;

-- Makes the living waiters at the head of the queue holders for three seconds, as long as the key lets them in, and
-- notifies them; 64 at most, and none behind `_before`. `_leaver` waits no more. The mutex is locked. Returns how many.
CREATE FUNCTION {schema}.grant_waiters(_key text, _now timestamptz, _before text, _leaver text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    _turn {schema}.turn;
    _last_fence bigint;
    _next {schema}.waiter;
    _holders bigint;
    _granted integer := 0;
    _told text;
BEGIN
    IF _leaver IS NOT NULL THEN
        DELETE FROM {schema}.waiter w WHERE w.key = _key AND w.owner = _leaver;
    END IF;
    SELECT * INTO _turn FROM {schema}.turn t WHERE t.key = _key ORDER BY t.last_fence DESC LIMIT 1;
    _last_fence := _turn.last_fence;
    _next := {schema}.first_waiter(_key, _turn.head, _now);
    IF _next.owner IS NULL OR _next.owner = _before THEN
        RETURN 0;
    END IF;
    SELECT count(*) INTO _holders FROM {schema}.holder h WHERE h.key = _key AND h.number >= _turn.least AND h.number >= 0;
    WHILE _granted < 64 AND {schema}.admits(_next.most, _holders, _turn.is_shared) LOOP
        _turn.last_fence := {schema}.next_fence(_turn.last_fence, _now);
        _turn.head := _next.place + 1;
        IF _holders = 0 THEN
            _turn.epoch := _turn.last_fence;
            _turn.is_shared := _next.most <> 0;
            _turn.least := _turn.last_fence;
        END IF;
        WITH granted AS (DELETE FROM {schema}.waiter w WHERE w.key = _key AND w.owner = _next.owner)
        INSERT INTO {schema}.holder (key, owner, fence, ends, number)
            VALUES (_key, _next.owner, _turn.epoch, _now + interval '3 seconds', _turn.last_fence)
            RETURNING {schema}.notify(_next.owner, _turn.epoch, _turn.last_fence, _key) INTO _told;
        _granted := _granted + 1;
        _holders := _holders + 1;
        -- Nobody holds a key beside an exclusive holder.
        EXIT WHEN _next.most = 0;
        _next := {schema}.first_waiter(_key, _turn.head, _now);
        EXIT WHEN _next.owner IS NULL OR _next.owner = _before;
    END LOOP;
    IF _granted > 0 THEN
        UPDATE {schema}.turn t
            SET last_fence = _turn.last_fence, epoch = _turn.epoch, is_shared = _turn.is_shared, granted_at = _now,
                least = _turn.least, head = _turn.head
            WHERE t.key = _key AND t.last_fence = _last_fence;
    END IF;
    RETURN _granted;
END $$;

-- Requests a lease. `_most` as in `waiter`. The place counts from 0, says 64 for all later ones, and is null for who does not
-- wait.
CREATE FUNCTION {schema}.acquire(
    _key text, _owner text, _ttl_ms bigint, _most integer, _queue boolean, _label text, _function text,
    OUT is_granted boolean, OUT fence bigint, OUT last_fence bigint, OUT place bigint,
    OUT label text, OUT function text, OUT rest_ms bigint, OUT others bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz;
    _turn {schema}.turn;
    _own {schema}.holder;
    _first {schema}.waiter;
    _gave boolean := false;
    _is_bound boolean := false;
    _holders bigint := 0;
    _earliest timestamptz;
    _least bigint;
    _place bigint;
    _number bigint;
    _message text;
    _setting text;
BEGIN
    LOOP
        SELECT * INTO _turn FROM {schema}.turn t WHERE t.key = _key ORDER BY t.last_fence DESC LIMIT 1 FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        PERFORM {schema}.make_turn(_key);
    END LOOP;
    IF EXISTS (SELECT FROM {schema}.holder h WHERE h.key = _key AND h.number >= _turn.least AND h.number >= 0)
        OR EXISTS (SELECT FROM {schema}.waiter w WHERE w.key = _key AND w.place >= _turn.head AND w.place >= 0) THEN
        -- Before other rows are locked: a renewal may have this one, and wait for those.
        fence := {schema}.extend(_key, _owner, _ttl_ms, _label, _function);
        IF fence IS NOT NULL THEN
            _setting := {schema}.commit_durably();
            is_granted := true;
            RETURN;
        END IF;
        _now := clock_timestamp();
        PERFORM {schema}.remove_ended(_key, _turn.least, _now);
        -- The owner's last lease has ended, and a transaction still depends on it.
        _is_bound := EXISTS (SELECT FROM {schema}.holder h WHERE h.key = _key AND h.owner = _owner);
        _gave := {schema}.grant_waiters(_key, _now, _owner, NULL) > 0;
        IF _gave THEN
            SELECT * INTO STRICT _turn FROM {schema}.turn t WHERE t.key = _key ORDER BY t.last_fence DESC LIMIT 1;
        END IF;
        SELECT count(*), min(h.ends), min(h.number) INTO _holders, _earliest, _least
            FROM {schema}.holder h WHERE h.key = _key AND h.number >= _turn.least AND h.number >= 0;
        SELECT * INTO _first FROM {schema}.waiter w
            WHERE w.key = _key AND w.place >= _turn.head AND w.place >= 0 ORDER BY w.place LIMIT 1;
    ELSE
        _now := clock_timestamp();
    END IF;
    IF NOT _is_bound AND (_first.owner IS NULL OR _first.owner = _owner)
        AND {schema}.admits(_most, _holders, _turn.is_shared) THEN
        _number := {schema}.next_fence(_turn.last_fence, _now);
        fence := CASE WHEN _holders = 0 THEN _number ELSE _turn.epoch END;
        WITH counted AS (
            UPDATE {schema}.turn t
            SET last_fence = _number, epoch = fence, is_shared = _most <> 0, granted_at = _now,
                least = coalesce(_least, _number), head = coalesce(_first.place + 1, _turn.head)
            WHERE t.key = _key AND t.last_fence = _turn.last_fence)
        INSERT INTO {schema}.holder (key, owner, fence, ends, label, function, number)
            VALUES (_key, _owner, fence, _now + _ttl_ms * interval '1 millisecond',
                    nullif(_label, ''), nullif(_function, ''), _number);
        IF _first.owner IS NOT NULL THEN
            DELETE FROM {schema}.waiter w WHERE w.key = _key AND w.owner = _owner;
            IF _most <> 0 THEN
                PERFORM {schema}.grant_waiters(_key, _now, NULL, NULL);
            END IF;
        END IF;
        _setting := {schema}.commit_durably();
        is_granted := true;
        RETURN;
    END IF;
    IF _queue AND NOT _is_bound THEN
        UPDATE {schema}.waiter w SET alive = _now + interval '3 seconds', most = _most
            WHERE w.key = _key AND w.owner = _owner;
        IF NOT FOUND THEN
            IF _most = 0 THEN
                _number := {schema}.next_fence(_turn.last_fence, _now);
                _message := {schema}.message(_owner, _number, _number, _key);
            END IF;
            INSERT INTO {schema}.waiter (key, owner, most, alive, since, label, number, message)
                VALUES (_key, _owner, _most, _now + interval '3 seconds', _now, nullif(_label, ''),
                        _number, _message)
                RETURNING place INTO _place;
            -- A crash takes the waiters with it, and their places begin anew.
            IF _place < _turn.head THEN
                _turn.head := 0;
                UPDATE {schema}.turn t SET head = 0 WHERE t.key = _key AND t.last_fence = _turn.last_fence;
            END IF;
        END IF;
    END IF;
    -- Each poll asks this under the mutex, so it must not depend on the number of waiters.
    SELECT (SELECT count(*) FROM (
            SELECT FROM {schema}.waiter w
            WHERE w.key = _key AND w.place >= _turn.head AND w.place >= 0 AND w.place < own.place LIMIT 64) ahead)
        INTO place FROM {schema}.waiter own WHERE own.key = _key AND own.owner = _owner;
    SELECT * INTO _own FROM {schema}.holder h
        WHERE h.key = _key AND h.number >= _turn.least AND h.number >= 0 ORDER BY h.ends DESC LIMIT 1;
    is_granted := false;
    fence := _own.fence;
    last_fence := _turn.last_fence;
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
    _turn {schema}.turn;
    _next {schema}.waiter;
    _gave boolean := false;
    _told text;
    _setting text;
BEGIN
    SELECT * INTO _turn FROM {schema}.turn t WHERE t.key = _key ORDER BY t.last_fence DESC LIMIT 1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM {schema}.holder h
        WHERE h.ctid = (SELECT o.ctid FROM {schema}.holder o
                        WHERE o.key = _key AND o.owner = _owner FOR UPDATE SKIP LOCKED)
        RETURNING h.ends,
            EXISTS (SELECT FROM {schema}.waiter w WHERE w.key = _key AND w.place >= _turn.head AND w.place >= 0),
            EXISTS (SELECT FROM {schema}.holder o
                    WHERE o.key = _key AND o.number >= _turn.least AND o.number >= 0 AND o.owner <> _owner)
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
        SELECT * INTO _next FROM {schema}.waiter w
            WHERE w.key = _key AND w.place >= _turn.head AND w.place >= 0 ORDER BY w.place LIMIT 1;
    END IF;
    IF _next.most = 0 AND _next.alive > _now THEN
        -- The usual grant, as `grant_waiters` makes it, in fewer statements: the key has no holder, this waiter will be the
        -- only one, and the owner of the lease is in no queue.
        -- The row of a key without a last fence was lost with its fences.
        IF _turn.last_fence > 0 AND _next.number > _turn.last_fence THEN
            _fence := _next.number;
        ELSE
            _fence := {schema}.next_fence(_turn.last_fence, _now);
            _next.message := {schema}.message(_next.owner, _fence, _fence, _key);
        END IF;
        WITH granted AS (
                DELETE FROM {schema}.waiter w WHERE w.key = _key AND w.owner = _next.owner),
            counted AS (
                UPDATE {schema}.turn t
                SET last_fence = _fence, epoch = _fence, is_shared = false, granted_at = _now, least = _fence,
                    head = _next.place + 1
                WHERE t.key = _key AND t.last_fence = _turn.last_fence)
        INSERT INTO {schema}.holder (key, owner, fence, ends, number)
            VALUES (_key, _next.owner, _fence, _now + interval '3 seconds', _fence)
            RETURNING pg_notify({schema}.channel(_next.owner), _next.message) INTO _told;
        _gave := true;
    ELSE
        IF _is_shared THEN
            PERFORM {schema}.remove_ended(_key, _turn.least, _now);
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
        -- Not of several at once: a release that finds only this lock is refused.
        IF {schema}.extend(_due.key, _due.owner, _due.ttl_ms, _due.label, _due.function) IS NOT NULL THEN
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
    PERFORM FROM {schema}.turn t WHERE t.key = _key ORDER BY t.last_fence DESC LIMIT 1 FOR NO KEY UPDATE;
    -- First refuse a lease that a transaction has adopted: the next lock would wait for its end. Then wait for a renewal
    -- that is under way, which does not take long.
    PERFORM FROM {schema}.holder h
        WHERE h.key = _key AND h.number >= 0 AND h.owner = coalesce(_owner, h.owner) AND h.fence = _fence
        ORDER BY h.owner FOR KEY SHARE NOWAIT;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM {schema}.holder h
        WHERE h.key = _key AND h.number >= 0 AND h.owner = coalesce(_owner, h.owner) AND h.fence = _fence
        ORDER BY h.owner FOR NO KEY UPDATE;
    PERFORM FROM {schema}.holder h
        WHERE h.key = _key AND h.number >= 0 AND h.owner = coalesce(_owner, h.owner) AND h.fence = _fence
        ORDER BY h.owner FOR UPDATE NOWAIT;
    _now := clock_timestamp();
    FOR _each IN
        DELETE FROM {schema}.holder h
            WHERE h.key = _key AND h.number >= 0 AND h.owner = coalesce(_owner, h.owner) AND h.fence = _fence RETURNING h.owner
    LOOP
        PERFORM {schema}.notify(_each, 0, 0, _key);
    END LOOP;
    PERFORM {schema}.remove_ended(_key, 0, _now);
    PERFORM {schema}.grant_waiters(_key, _now, NULL, NULL);
    PERFORM {schema}.commit_durably();
    RETURN true;
END $$;

-- Removes what is left over: leases that ended and waiters that died a minute ago, and keys that have not been used for an
-- hour. A fence that is forgotten is replaced by the clock. One process at a time does it, and again after nine minutes.
-- Returns the most rows that it has looked at in one table.
CREATE FUNCTION {schema}.sweep() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- The row of the sweep has no index, and a plan that may take none looks expensive enough for a compiler.
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    _now timestamptz := clock_timestamp();
    _after text;
    _keys text[];
    _count bigint;
    _most bigint;
BEGIN
    SELECT s.after INTO _after FROM {schema}.sweep_state s WHERE s.due <= _now FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM {schema}.holder h
    USING (SELECT e.key, e.owner FROM {schema}.holder e
           WHERE e.ends < _now - interval '1 minute' LIMIT 1000 FOR UPDATE SKIP LOCKED) ended
    WHERE h.key = ended.key AND h.owner = ended.owner;
    GET DIAGNOSTICS _most = ROW_COUNT;
    DELETE FROM {schema}.waiter w
    USING (SELECT d.key, d.owner FROM {schema}.waiter d
           WHERE d.alive < _now - interval '1 minute' LIMIT 1000 FOR UPDATE SKIP LOCKED) dead
    WHERE w.key = dead.key AND w.owner = dead.owner;
    GET DIAGNOSTICS _count = ROW_COUNT;
    _most := greatest(_most, _count);
    -- A part of all keys, in their order.
    SELECT array_agg(part.key) FILTER (WHERE part.granted_at < _now - interval '1 hour'), max(part.key), count(*)
        INTO _keys, _after, _count
        FROM (SELECT t.key, t.granted_at FROM {schema}.turn t WHERE t.key > _after ORDER BY t.key LIMIT 1000) part;
    _most := greatest(_most, _count);
    SELECT array_agg(old.key) INTO _keys FROM (
        SELECT t.key FROM {schema}.turn t WHERE t.key = ANY (_keys) AND t.granted_at < _now - interval '1 hour'
            -- The clock may have been set back since: the next fence would not be greater.
            AND t.last_fence < {schema}.next_fence(0, _now)
        FOR UPDATE SKIP LOCKED) old;
    -- Under their mutexes.
    DELETE FROM {schema}.turn t WHERE t.key = ANY (_keys)
        AND NOT EXISTS (SELECT FROM {schema}.holder h WHERE h.key = t.key AND h.number >= 0)
        AND NOT EXISTS (SELECT FROM {schema}.waiter w WHERE w.key = t.key AND w.place >= 0);
    UPDATE {schema}.sweep_state s
        SET after = CASE WHEN _count < 1000 THEN '' ELSE _after END,
            due = CASE WHEN _most < 1000 THEN _now + interval '9 minutes' ELSE s.due END;
    RETURN _most;
END $$;
