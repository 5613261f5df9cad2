-- The locks of one page of keys, by one snapshot. It locks no rows and writes nothing.
--
-- The page is a statement that chooses keys. The rows are 1 a key, 2 a holder, 3 a waiter, 4 the end of the page.
--
-- A lease that has ended is still held while a transaction depends on it: then a transaction in progress has locked or
-- deleted its row. `xmax` is that transaction, or the number of a list of them; which of both is not visible. Numbers that
-- cannot be one or the other are not looked up, and a wrong one is not in progress.
WITH page AS MATERIALIZED ({page}),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now,
           pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_xid,
           mxid_age(d.datminmxid) AS oldest
    FROM pg_database d WHERE d.datname = current_database()
),
chosen AS MATERIALIZED (
    SELECT page.key, coalesce(t.last_fence, 0) AS last_fence, coalesce(t.is_shared, false) AS is_shared,
           -- Each grant notes its time here. That to a reader may not be the first.
           CASE WHEN NOT t.is_shared THEN t.granted_at END AS granted_at,
           coalesce(t.least, 0) AS least, coalesce(t.head, 0) AS head
    FROM page LEFT JOIN LATERAL (
        SELECT * FROM {schema}.turn t WHERE t.key = page.key ORDER BY t.last_fence DESC LIMIT 1
    ) t ON true
    WHERE $4::text IS NULL OR page.key ~ $4
),
held AS MATERIALIZED (
    SELECT h.key, h.owner, h.fence, h.label, h.function,
           greatest(ceil(extract(epoch FROM h.ends - moment.now) * 1000), 0)::bigint AS rest_ms,
           CASE WHEN chosen.granted_at IS NOT NULL
               THEN greatest(extract(epoch FROM moment.now - chosen.granted_at) * 1000, 0) END::bigint AS held_ms,
           row_number() OVER (PARTITION BY h.key ORDER BY h.owner) AS nth,
           count(*) OVER (PARTITION BY h.key) AS total
    FROM chosen JOIN {schema}.holder h ON h.key = chosen.key AND h.number >= chosen.least AND h.number >= 0 CROSS JOIN moment
    WHERE h.ends > moment.now OR EXISTS (
        SELECT FROM (
            SELECT h.xmax AS xid
            UNION ALL
            SELECT m.xid FROM pg_get_multixact_members(
                CASE WHEN mxid_age(h.xmax) BETWEEN 1 AND moment.oldest THEN h.xmax END) m
        ) AS locker
        CROSS JOIN LATERAL (
            SELECT moment.next_xid - moment.next_xid % 4294967296 + locker.xid::text::bigint AS id
        ) AS full_xid
        WHERE CASE
            WHEN full_xid.id BETWEEN 3 AND moment.next_xid - 1
                THEN pg_xact_status(full_xid.id::text::xid8) = 'in progress'
            WHEN full_xid.id - 4294967296 >= 3
                THEN pg_xact_status((full_xid.id - 4294967296)::text::xid8) = 'in progress'
            ELSE false END
    )
),
waiting AS MATERIALIZED (
    SELECT w.key, w.owner, w.most, w.label, w.alive > moment.now AS is_alive,
           greatest(extract(epoch FROM moment.now - w.since) * 1000, 0)::bigint AS waiting_ms,
           row_number() OVER (PARTITION BY w.key ORDER BY w.place) AS nth,
           count(*) OVER (PARTITION BY w.key) AS total
    FROM chosen JOIN {schema}.waiter w ON w.key = chosen.key AND w.place >= chosen.head AND w.place >= 0 CROSS JOIN moment
    -- One that is dead for longer only waits to be removed.
    WHERE w.alive > moment.now - interval '1 minute'
)
SELECT 1 AS kind, c.key, NULL::text AS owner, c.last_fence AS number, NULL::bigint AS ms, c.is_shared AS flag,
       NULL::integer AS most, NULL::text AS label, NULL::text AS function, NULL::bigint AS total, NULL::bigint AS held_ms,
       NULL::bigint AS nth
FROM chosen c
UNION ALL
SELECT 2, h.key, h.owner, h.fence, h.rest_ms, NULL, NULL, h.label, h.function, h.total, h.held_ms, h.nth
FROM held h WHERE h.nth <= 4096
UNION ALL
SELECT 3, w.key, w.owner, NULL, w.waiting_ms, w.is_alive, w.most, w.label, NULL, w.total, NULL, w.nth
FROM waiting w WHERE w.nth <= 4096
UNION ALL
SELECT 4, (SELECT max(page.key) FROM page), NULL, (SELECT count(*) FROM page),
       (extract(epoch FROM moment.now) * 1000000)::bigint, NULL, NULL, NULL, NULL,
       (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint, NULL, NULL
FROM moment
ORDER BY kind, key, nth
