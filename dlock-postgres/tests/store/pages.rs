//! What requests read of the tables, which grows with neither the past of a key nor its present.

use tokio_postgres::Client;

use crate::{
    database::Database,
    rows::{ask, pages, snapshot},
};

/// Three thousand turns of a key, each with a waiter.
const PAST: &str = "DO $$ BEGIN FOR n IN 1 .. 3000 LOOP
        PERFORM dlock.acquire('order:42', 'a.' || n, 30000, 0, true, '', '');
        PERFORM dlock.acquire('order:42', 'b.' || n, 30000, 0, true, '', '');
        COMMIT;
        PERFORM dlock.release('order:42', 'a.' || n);
        COMMIT;
        PERFORM dlock.release('order:42', 'b.' || n);
        COMMIT;
    END LOOP; END $$";

/// A step, and the holders after it.
enum Step {
    Request(String, &'static str),
    Happens(&'static str),
}

fn release(owner: &str) -> String {
    format!("SELECT dlock.release('order:42', '{owner}')")
}

/// Requests of every kind: of those who hold, wait, come, leave, have died, and of an operator.
fn steps() -> Vec<Step> {
    use Step::{Happens, Request};
    let patience = "UPDATE dlock.waiter SET alive = clock_timestamp() + interval '1 hour' WHERE alive > clock_timestamp()";
    let lasting = "UPDATE dlock.holder SET ends = clock_timestamp() + interval '1 hour'";
    vec![
        Request(ask("a.1", 0), "a.1"),
        Request(ask("b.1", -1), "a.1"),
        Request(ask("c.1", 2), "a.1"),
        Happens(patience),
        Request(ask("c.1", 2), "a.1"),
        Request(
            "SELECT dlock.renew('{order:42}', '{a.1}', '{30000}', '{\"\"}', '{\"\"}')".to_owned(),
            "a.1",
        ),
        Request(release("a.1"), "b.1 c.1"),
        Happens(lasting),
        Request(ask("d.1", 0), "b.1 c.1"),
        Happens(patience),
        Request(ask("e.1", -1), "b.1 c.1"),
        Happens(patience),
        Request(release("e.1"), "b.1 c.1"),
        Request("unlock".to_owned(), "d.1"),
        Happens(lasting),
        Request(ask("f.1", 0), "d.1"),
        Happens(patience),
        Happens("UPDATE dlock.holder SET ends = clock_timestamp()"),
        Request(ask("g.1", -1), "f.1"),
        Happens(lasting),
        Happens("UPDATE dlock.waiter SET alive = clock_timestamp()"),
        Request(ask("h.1", -1), "f.1"),
        Happens(patience),
        Request(release("f.1"), "h.1"),
        Request(release("h.1"), ""),
        Request(ask("i.1", 0), "i.1"),
        Request(release("i.1"), ""),
    ]
}

async fn holders(client: &Client) -> String {
    let all = "SELECT coalesce(string_agg(owner, ' ' ORDER BY owner), '') FROM dlock.holder";
    client.query_one(all, &[]).await.unwrap().get(0)
}

/// A snapshot keeps the dead versions of all rows.
#[tokio::test]
async fn no_kind_of_request_reads_the_past_of_its_key() {
    let database = Database::new().await;
    let (mut old, client) = (database.client().await, database.client().await);
    let backup = snapshot(&mut old).await;
    client.batch_execute(PAST).await.unwrap();
    // The first turn of a session reads the catalogs as well.
    for is_first in [true, false] {
        let mut before = String::new();
        for step in steps() {
            let (request, expected) = match step {
                Step::Request(request, expected) => (request, expected),
                Step::Happens(statement) => {
                    client.batch_execute(statement).await.unwrap();
                    continue;
                }
            };
            let is_of_operator = request == "unlock";
            let request = if is_of_operator {
                let fence = "SELECT max(fence) FROM dlock.holder";
                let fence = database.number(fence).await;
                format!("SELECT dlock.unlock('order:42', NULL, {fence})")
            } else {
                request
            };
            let read = pages(&client, &request).await;
            // Requests that find nobody are shorter. An operator seldom ends a lease.
            let limit = match (is_of_operator, before.is_empty()) {
                (true, _) => i64::MAX,
                (false, true) => 35,
                (false, false) => 110,
            };
            assert!(is_first || read < limit, "{read} pages: {request}");
            before = holders(&client).await;
            assert_eq!(before, expected, "{request}");
        }
    }
    backup.commit().await.unwrap();
}
