//! Messages about grants: any role that may connect can receive and send them.

use std::future::poll_fn;

use dlock_runtime::{
    random::SystemRandom,
    store::{ClientId, HintSink, LockStore as _, OwnerId},
};
use dlock_testkit::eventually;
use tokio::{sync::mpsc, time::timeout};
use tokio_postgres::{AsyncMessage, Client, NoTls, Notification};

use crate::{
    database::{DEADLINE, Database},
    silent::Heard,
};

/// Connects as a role that has no permission, and passes on what it receives.
pub(crate) async fn stranger(
    database: &Database,
) -> (Client, mpsc::UnboundedReceiver<Notification>) {
    let role = format!("stranger_of_{}", database.name);
    let admin = database.client().await;
    let create = format!("CREATE ROLE {role} LOGIN");
    admin.batch_execute(&create).await.unwrap();
    let url = database.server.url_of(&role, &database.name);
    let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let (tell, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                tell.send(notification).ok();
            }
        }
    });
    (client, received)
}

/// The message about a later grant, from one that was sent: of the next claim, and with greater numbers.
fn made_up(sent: &str) -> String {
    let mut parts: Vec<_> = sent.split(' ').map(str::to_owned).collect();
    let (client, claim) = parts[0].rsplit_once('.').unwrap_or(("", &parts[0]));
    let next = claim.parse::<u64>().unwrap() + 1;
    parts[0] = match client {
        "" => next.to_string(),
        client => format!("{client}.{next}"),
    };
    for part in &mut parts[1..3] {
        *part = (part.parse::<u64>().unwrap() + 1_000_000_000).to_string();
    }
    parts.join(" ")
}

#[tokio::test]
async fn a_message_of_another_role_begins_no_body() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let (stranger, mut received) = stranger(&database).await;
    let is_queued = async || database.number("SELECT count(*) FROM dlock.waiter").await == 1;

    let guard = one.lock("order:42").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("order:42").wait(DEADLINE).acquire());
    eventually(DEADLINE, "it waits", is_queued).await;
    // A role with `pg_read_all_stats` sees it as the last statement of the waiter's connection.
    let channel = "SELECT 'LISTEN ' || dlock.channel(owner) FROM dlock.waiter";
    let admin = database.client().await;
    let listen = admin.query_one(channel, &[]).await.unwrap();
    stranger.batch_execute(listen.get(0)).await.unwrap();
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let granted = received.recv().await.unwrap();

    let guard = one.lock("order:42").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("order:42").wait(DEADLINE).acquire());
    eventually(DEADLINE, "it waits again", is_queued).await;
    let owner = "SELECT split_part(owner, '.', 2)::bigint FROM dlock.waiter";
    let claim: u64 = granted
        .payload()
        .split(' ')
        .next()
        .unwrap()
        .rsplit('.')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(
        database.number(owner).await,
        i64::try_from(claim).unwrap() + 1,
        "the next claim"
    );
    for payload in [made_up(granted.payload()), granted.payload().to_owned()] {
        let notify = "SELECT pg_notify($1, $2)";
        stranger
            .execute(notify, &[&granted.channel(), &payload])
            .await
            .unwrap();
        assert_eq!(received.recv().await.unwrap().payload(), payload);
    }
    // It is sent after those messages, and so received after them.
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    let fence = database.number("SELECT fence FROM dlock.holder").await;
    let told = next.fencing_token().to_i64() >> 12;
    assert_eq!(told, fence, "the body began by the grant of the server");
    next.release().await.unwrap();
}

/// Roles of backups and reports can read everything, the proof of a message included.
#[tokio::test]
async fn a_role_that_reads_all_tables_begins_no_body() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let (reader, _received) = stranger(&database).await;
    let admin = database.client().await;
    let grant = format!("GRANT pg_read_all_data TO stranger_of_{}", database.name);
    admin.batch_execute(&grant).await.unwrap();

    let guard = one.lock("order:42").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("order:42").wait(DEADLINE).acquire());
    let waiter = "SELECT 'dlock_' || left(owner, 8), message, alive::text FROM dlock.waiter";
    let read = async || reader.query_opt(waiter, &[]).await.unwrap();
    eventually(DEADLINE, "it waits", async || read().await.is_some()).await;
    let row = read().await.unwrap();
    let (channel, message): (&str, &str) = (row.get(0), row.get(1));
    let notify = "SELECT pg_notify($1, $2)";
    reader.execute(notify, &[&channel, &message]).await.unwrap();
    // The first time may be that of a request before the message.
    let mut asked: Vec<String> = vec![row.get(2)];
    eventually(DEADLINE, "it has asked twice", async || {
        if let Some(row) = read().await {
            asked.push(row.get(2));
            asked.dedup();
        }
        asked.len() > 2
    })
    .await;
    assert!(
        !waiting.is_finished(),
        "broken promise: it began beside the holder"
    );
    guard.ensure_held().unwrap();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    let fence = database.number("SELECT fence FROM dlock.holder").await;
    assert_eq!(next.fencing_token().to_i64() >> 12, fence);
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_store_passes_on_each_message_for_a_client_until_it_is_detached() {
    let database = Database::new().await;
    let store = database.store();
    let client = ClientId::new(&SystemRandom);
    let hooks = store.properties().hooks.unwrap();
    let (heard, mut hints) = Heard::new();
    // The last statement of the connection: there is no request.
    let is_last = async |command: &str| {
        let last = format!(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND query = '{command} dlock_{}'",
            &client.to_string()[..8]
        );
        database.number(&last).await == 1
    };
    hooks.attach(client, HintSink::new(heard));
    eventually(DEADLINE, "it listens", async || is_last("LISTEN").await).await;
    let owner = OwnerId::new(client, 1);
    let notify = format!("SELECT dlock.notify('{owner}', 7, 7, 'order:42')");
    let admin = database.client().await;
    for _ in 0..3 {
        admin.batch_execute(&notify).await.unwrap();
        let told = timeout(DEADLINE, hints.recv()).await.unwrap();
        assert_eq!(told, Some((owner, 0)), "it has no fence");
    }
    hooks.detach(client).await;
    let has_ended = async || is_last("UNLISTEN").await;
    eventually(DEADLINE, "it listens no more", has_ended).await;
}

/// The message of a waiter is made when it comes. A lease that is given since may have a greater fence.
#[tokio::test]
async fn a_message_says_the_fence_of_its_grant_whatever_was_given_since() {
    // Ahead of the clock too.
    let given = "UPDATE dlock.turn SET last_fence = (SELECT number + 1000000000 FROM dlock.waiter)";
    for since in ["SELECT", given] {
        let database = Database::new().await;
        let (client, mut received) = stranger(&database).await;
        let listen = "SELECT 'LISTEN ' || dlock.channel('somebody.3')";
        let admin = database.client().await;
        let listen = admin.query_one(listen, &[]).await.unwrap();
        client.batch_execute(listen.get(0)).await.unwrap();
        for owner in ["one.1", "somebody.3"] {
            let acquire =
                format!("SELECT dlock.acquire('a key', '{owner}', 30000, 0, true, '', '')");
            admin.batch_execute(&acquire).await.unwrap();
        }
        let patient = "UPDATE dlock.waiter SET alive = alive + interval '1 hour'";
        admin.batch_execute(patient).await.unwrap();
        admin.batch_execute(since).await.unwrap();
        let last = database.number("SELECT last_fence FROM dlock.turn").await;
        let number = database.number("SELECT number FROM dlock.waiter").await;
        let release = "SELECT dlock.release('a key', 'one.1')";
        admin.batch_execute(release).await.unwrap();
        let fence = database
            .number("SELECT fence FROM dlock.holder WHERE owner = 'somebody.3'")
            .await;
        assert!(
            fence > last,
            "broken promise: the token did not grow: {since}"
        );
        assert_eq!(fence == number, since == "SELECT", "{since}");
        let message = format!("SELECT dlock.message('somebody.3', {fence}, {fence}, 'a key')");
        let message: String = admin.query_one(&message, &[]).await.unwrap().get(0);
        assert_eq!(received.recv().await.unwrap().payload(), message, "{since}");
        let counted =
            "SELECT last_fence FROM dlock.turn WHERE last_fence = epoch AND NOT is_shared";
        assert_eq!(database.number(counted).await, fence, "{since}");
    }
}
