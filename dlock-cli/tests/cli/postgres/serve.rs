//! `dlock serve` over PostgreSQL.

use serde_json::Value;

use super::{
    super::{cases::Place as _, serve::start},
    Database, at,
};

#[tokio::test]
async fn a_role_that_may_only_read_is_enough() {
    let database = Database::new().await;
    let role = database.role("viewer").await;
    database
        .execute(&format!(
            "GRANT USAGE ON SCHEMA dlock TO {role}; GRANT EXECUTE ON FUNCTION dlock.version() TO {role};
             GRANT SELECT ON ALL TABLES IN SCHEMA dlock TO {role}"
        ))
        .await;
    let (billing, mail) = (
        database.manager("billing").await,
        database.manager("mail").await,
    );
    let guard = billing.lock("order/1").acquire().await.unwrap();
    let request = mail.lock("order/1").wait(dlock::Wait::Forever);
    let waiting = tokio::spawn(request.acquire());
    database.has_waiters(1).await;
    let words = ["serve", "--listen", "127.0.0.1:0", "--interval", "100ms"];
    let site = start(&mut at(&database.url_of(&role), &words)).await;
    let mut events = site.events("api/picture/events?filter=billing").await;
    let told = events
        .until("the waiter", |told| told["locks"][0]["waiters"] == 1)
        .await;
    assert_eq!(told["server"]["product"], "PostgreSQL");
    assert!(
        told["totals"]["processes"].is_u64(),
        "it counts them: {told:#}"
    );
    let cannot = told["cannot"].to_string();
    assert!(cannot.contains("no records of processes"), "{cannot}");
    let lock = site.json("api/lock?key=order%2F1").await;
    let holder = &lock["lock"]["holders"][0];
    assert_eq!(holder["token"], guard.fencing_token().to_string());
    let doctor = site.json("api/doctor").await.to_string();
    assert!(
        doctor.contains("GRANT EXECUTE"),
        "it may not lock: {doctor}"
    );
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    let mut of_lock = site.events("api/lock/events?key=order%2F1").await;
    let token = next.fencing_token().to_string();
    let is_next = |told: &Value| told["lock"]["holders"][0]["token"] == *token;
    of_lock.until("the next holder", is_next).await;
    next.release().await.unwrap();
}
