//! The functions that requests are made of, at the bounds of what they decide.

use crate::database::Database;

#[tokio::test]
async fn a_lease_and_the_life_of_a_waiter_end_at_their_very_end() {
    let database = Database::new().await;
    let client = database.client().await;
    let rows = "
        INSERT INTO dlock.holder (key, owner, fence, ends, number) VALUES
            ('a', 'ended.1', 1, '2030-01-01 00:00:00', 7), ('a', 'held.1', 1, '2030-01-01 00:00:00.000001', 7),
            ('a', 'earlier.1', 1, '2030-01-01 00:00:00', 6), ('b', 'ended.1', 1, '2030-01-01 00:00:00', 7),
            ('c', 'old.1', 1, '2030-01-01 00:00:00', 0);
        INSERT INTO dlock.waiter (key, owner, most, alive, since) VALUES
            ('a', 'dead.1', 0, '2030-01-01 00:00:00', now()), ('b', 'dead.1', 0, '2030-01-01 00:00:00', now()),
            ('a', 'alive.1', 0, '2030-01-01 00:00:00.000001', now()), ('a', 'dead.2', 0, '2030-01-01 00:00:00', now()),
            ('a', 'alive.2', 0, '2031-01-01 00:00:00', now())";
    client.batch_execute(rows).await.unwrap();
    let text = async |statement: &str| -> String {
        client.query_one(statement, &[]).await.unwrap().get(0)
    };
    // That of `c` is from version 1, and has no number.
    let remove = "SELECT dlock.remove_ended('a', 7, '2030-01-01 00:00:00');
        SELECT dlock.remove_ended('c', 0, '2030-01-01 00:00:00')";
    client.batch_execute(remove).await.unwrap();
    let holders =
        "SELECT string_agg(key || ' ' || owner, ', ' ORDER BY key, owner) FROM dlock.holder";
    // The turn of the key notes that it has no holder with a lower number.
    assert_eq!(text(holders).await, "a earlier.1, a held.1, b ended.1");
    let first = "SELECT owner FROM dlock.first_waiter('a', 0, '2030-01-01 00:00:00')";
    let waiters = "SELECT string_agg(key || ' ' || owner, ', ' ORDER BY place) FROM dlock.waiter";
    // Only those before the first living one are removed.
    for _ in 0..2 {
        assert_eq!(text(first).await, "alive.1");
        assert_eq!(
            text(waiters).await,
            "b dead.1, a alive.1, a dead.2, a alive.2"
        );
    }
    let none =
        "SELECT coalesce(owner, 'nobody') FROM dlock.first_waiter('a', 0, '2031-01-01 00:00:00')";
    assert_eq!(text(none).await, "nobody");
    assert_eq!(text(waiters).await, "b dead.1");
}

#[tokio::test]
async fn a_number_is_the_clock_or_one_more_than_the_last() {
    let database = Database::new().await;
    for (last, time, next) in [
        (0, "2024-01-01 00:00:00+00", 1),
        (0, "2024-01-01 00:00:01+00", 100_000),
        (99_998, "2024-01-01 00:00:01+00", 100_000),
        (99_999, "2024-01-01 00:00:01+00", 100_000),
        (100_000, "2024-01-01 00:00:01+00", 100_001),
        (500_000, "2024-01-01 00:00:01+00", 500_001),
        (0, "2024-01-01 00:00:00.000025+00", 2),
    ] {
        let number = format!("SELECT dlock.next_fence({last}, '{time}')");
        assert_eq!(database.number(&number).await, next, "{last} at {time}");
    }
}

#[tokio::test]
async fn a_key_lets_in_one_or_those_who_share_it_or_as_many_as_there_are_permits() {
    let database = Database::new().await;
    let client = database.client().await;
    // Of 0, 1, 2 and 3 holders that share the key, and of 0 and 1 that does not.
    for (most, shared, exclusive) in [
        (0, "t f f f", "t f"),
        (-1, "t t t t", "t f"),
        (1, "t f f f", "t f"),
        (2, "t t f f", "t f"),
        (3, "t t t f", "t f"),
    ] {
        let admitted = format!(
            "SELECT string_agg(left(dlock.admits({most}, n, true)::text, 1), ' ' ORDER BY n),
                 string_agg(left(dlock.admits({most}, n, false)::text, 1), ' ' ORDER BY n) FILTER (WHERE n < 2)
             FROM generate_series(0, 3) n"
        );
        let row = client.query_one(&admitted, &[]).await.unwrap();
        assert_eq!((row.get(0), row.get(1)), (shared, exclusive), "{most}");
    }
}

#[tokio::test]
async fn a_release_grants_the_key_to_64_at_once_and_the_next_request_to_the_others() {
    let database = Database::new().await;
    let client = database.client().await;
    let many = "
        SELECT dlock.acquire('catalog', 'one.1', 30000, 0, true, '', '');
        SELECT dlock.acquire('catalog', 'w.' || n, 30000, -1, true, '', '') FROM generate_series(1, 70) n;
        UPDATE dlock.waiter SET alive = alive + interval '1 hour';
        SELECT dlock.release('catalog', 'one.1');
        UPDATE dlock.holder SET ends = ends + interval '1 hour'";
    client.batch_execute(many).await.unwrap();
    let first = "SELECT count(*) FROM dlock.holder WHERE substr(owner, 3)::integer <= 64";
    assert_eq!(database.number(first).await, 64);
    assert_eq!(
        database.number("SELECT count(*) FROM dlock.waiter").await,
        6
    );
    let poll = "SELECT dlock.acquire('catalog', 'w.70', 30000, -1, true, '', '')";
    client.batch_execute(poll).await.unwrap();
    let holders = "SELECT count(*) FROM dlock.holder";
    assert_eq!(database.number(holders).await, 70);
    assert_eq!(
        database.number("SELECT count(*) FROM dlock.waiter").await,
        0
    );
}

#[tokio::test]
async fn a_lease_of_one_key_is_none_of_another_with_the_same_owner_and_fence() {
    let database = Database::new().await;
    let client = database.client().await;
    let both = "
        SELECT dlock.acquire(key, 'a.1', 30000, 0, true, '', '') FROM unnest(ARRAY['one', 'other']) key;
        UPDATE dlock.holder SET fence = 7";
    client.batch_execute(both).await.unwrap();
    let lost = async |keys: &str| -> Option<String> {
        let list = |item: &str| vec![item; keys.split(',').count()].join(",");
        let check = format!(
            "SELECT dlock.fence('{{{keys}}}', '{{{}}}', '{{{}}}')",
            list("a.1"),
            list("7")
        );
        client.query_one(&check, &[]).await.unwrap().get(0)
    };
    assert_eq!(lost("one,other").await, None);
    let release = "SELECT dlock.release('other', 'a.1')";
    client.batch_execute(release).await.unwrap();
    for (keys, expected) in [
        ("one", None),
        ("other", Some("other")),
        ("one,other", Some("other")),
        ("other,one", Some("other")),
        ("one,third", Some("third")),
    ] {
        assert_eq!(lost(keys).await.as_deref(), expected, "{keys}");
    }
    for (key, is_held) in [("other", false), ("one", true)] {
        let adopt = format!("SELECT dlock.adopt('{key}', 'a.1', 7)");
        let row = client.query_one(&adopt, &[]).await.unwrap();
        assert_eq!(row.get::<_, bool>(0), is_held, "{key}");
    }
}
