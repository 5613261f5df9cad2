//! `dlock watch` over PostgreSQL.

use dlock_testkit::Worker;
use rustix::process::Signal;

use super::{Database, at};
use crate::{
    LIMIT,
    cases::{self, Place as _},
    ended,
    run_signals::send,
};

#[tokio::test]
async fn changes_of_locks_are_printed() {
    cases::changes_of_locks_are_printed(Database::with_claims().await).await;
}

#[tokio::test]
async fn an_end_of_its_connection_is_survived() {
    let database = Database::new().await;
    let billing = database.manager("billing").await;
    let before = billing.lock("before").acquire().await.unwrap();
    let watch = Worker::spawn(&mut at(&database.url(), &["watch", "--json", "-i", "20ms"]));
    watch.line("\"key\":\"before\"", LIMIT).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE application_name LIKE 'dlock operator%' AND datname = current_database()";
    database.execute(end).await;
    let later = billing.lock("later").acquire().await.unwrap();
    let event = watch.line("\"key\":\"later\"", LIMIT).await;
    assert!(event.contains("\"event\":\"acquired\""), "{event}");
    before.release().await.unwrap();
    watch.line("\"event\":\"released\"", LIMIT).await;
    later.release().await.unwrap();
    send(&watch, Signal::INT);
    ended(&watch).await.with(0);
}
