//! `dlock watch` over PostgreSQL.

use dlock::Wait;
use dlock_testkit::Worker;
use rustix::process::Signal;

use super::{Database, at};
use crate::{LIMIT, ended, run_signals::send, without_pace};

#[tokio::test]
async fn changes_of_locks_are_printed() {
    let database = Database::new().await;
    let (billing, mail) = (
        database.manager("billing").await,
        database.manager("mail").await,
    );
    let before = mail.lock("before").acquire().await.unwrap();
    let watch = Worker::spawn(&mut at(&database.url(), &["watch", "-i", "20ms"]));
    watch.line("held      before  mail@", LIMIT).await;
    let guard = billing.lock("order:1").acquire().await.unwrap();
    watch.line("acquired  order:1  billing@", LIMIT).await;
    let waiting = tokio::spawn(mail.lock("order:1").wait(Wait::Forever).acquire());
    watch.line("waits     order:1  mail@", LIMIT).await;
    guard.release().await.unwrap();
    // No message tells it: the waiter was seen before, and is the holder now.
    watch.line("granted   order:1  ", LIMIT).await;
    waiting.await.unwrap().unwrap().release().await.unwrap();
    watch.line("released  order:1  ", LIMIT).await;
    before.release().await.unwrap();
    send(&watch, Signal::INT);
    assert_eq!(without_pace(&ended(&watch).await.with(0).stderr), "");
}

#[tokio::test]
async fn an_end_of_its_connection_is_survived() {
    let database = Database::new().await;
    let billing = database.manager("billing").await;
    let before = billing.lock("before").acquire().await.unwrap();
    let watch = Worker::spawn(&mut at(&database.url(), &["watch", "--json", "-i", "20ms"]));
    watch.line("\"key\":\"before\"", LIMIT).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE application_name = 'dlock operator' AND datname = current_database()";
    database.execute(end).await;
    let later = billing.lock("later").acquire().await.unwrap();
    let event = watch.line("\"key\":\"later\"", LIMIT).await;
    assert!(event.contains("\"event\":\"taken\""), "{event}");
    before.release().await.unwrap();
    watch.line("\"event\":\"released\"", LIMIT).await;
    later.release().await.unwrap();
    send(&watch, Signal::INT);
    ended(&watch).await.with(0);
}
