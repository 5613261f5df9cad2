//! The answers of the functions as the store reads them: each part, and answers that are invalid.

use std::time::Duration;

use dlock_runtime::{
    LockKey, LockMode,
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Holder, LockStore as _, OwnerId, Queue,
        ReleaseRequest, RenewBatch, RenewRequest, Renewal, StoreError, StoreErrorKind,
    },
};

use crate::database::Database;

/// Replaces the body of a function.
async fn replace(database: &Database, function: &str, body: &str) {
    let definition = "SELECT pg_get_functiondef($1::text::regprocedure)";
    let client = database.client().await;
    let row = client.query_one(definition, &[&function]).await.unwrap();
    let text: String = row.get(0);
    let (head, _) = text.split_once("AS $function$").unwrap();
    let replaced = format!("{head} AS $function$ BEGIN {body} END $function$");
    client.batch_execute(&replaced).await.unwrap();
}

const ACQUIRE: &str = "dlock.acquire(text, text, bigint, integer, boolean, text, text)";
const RENEW: &str = "dlock.renew(text[], text[], bigint[], text[], text[])";
const RELEASE: &str = "dlock.release(text, text)";

fn key() -> LockKey {
    LockKey::new("order:42").unwrap()
}

fn owner(number: u64) -> OwnerId {
    OwnerId::new(ClientId::new(&SystemRandom), number)
}

#[tokio::test]
async fn each_part_of_an_answer_reaches_the_caller() {
    let database = Database::new().await;
    let store = database.store();
    let (key, owner) = (key(), owner(1));
    let ask = async || {
        let request = AcquireRequest::new(&key, owner, Duration::from_secs(30));
        store.acquire(request).await.unwrap()
    };
    let busy = "is_granted := false; fence := 7; last_fence := 9; place := 3; label := 'billing'; function := 'f';
                rest_ms := 1500; others := 2;";
    replace(&database, ACQUIRE, busy).await;
    let mut expected = Holder::new(9).fence(7).others(2);
    expected.label = Some("billing".to_owned());
    expected.function = Some("f".to_owned());
    expected.position = Some(3);
    expected.ttl = Some(Duration::from_millis(1500));
    assert_eq!(ask().await, AcquireOutcome::busy(expected));

    replace(&database, ACQUIRE, "is_granted := false; last_fence := 9;").await;
    assert_eq!(ask().await, AcquireOutcome::busy(Holder::new(9).fence(0)));

    replace(&database, ACQUIRE, "is_granted := true; fence := 7;").await;
    assert_eq!(ask().await, AcquireOutcome::granted(7));
}

/// A function of another user may have the name of one of dlock's.
#[tokio::test]
async fn an_answer_that_makes_no_sense_grants_and_renews_nothing() {
    let database = Database::new().await;
    let store = database.store();
    let (key, owner) = (key(), owner(1));
    let is_bad = |error: StoreError, says: &str| {
        assert_eq!(error.kind(), StoreErrorKind::BadAnswer, "{error}");
        assert!(error.message().contains(says), "{error}");
        assert!(
            !error.has_no_effect(),
            "it may have done something: {error}"
        );
    };
    for (body, says) in [
        ("is_granted := true; fence := -1;", "`fence` is negative"),
        (
            "is_granted := false; last_fence := -1;",
            "`last_fence` is negative",
        ),
        (
            "is_granted := false; rest_ms := -1;",
            "`rest_ms` is negative",
        ),
        ("is_granted := NULL;", "column 0"),
    ] {
        replace(&database, ACQUIRE, body).await;
        let request = AcquireRequest::new(&key, owner, Duration::from_secs(30));
        is_bad(store.acquire(request).await.unwrap_err(), says);
    }
    for index in [0, -1, 3] {
        let body = format!("RETURN NEXT 1; RETURN NEXT {index};");
        replace(&database, RENEW, &body).await;
        let requests = [key.clone(), key.clone()];
        let requests = requests
            .each_ref()
            .map(|key| RenewRequest::new(key, owner, Duration::from_secs(30)));
        for answer in store.renew(RenewBatch::new(&requests)).await {
            is_bad(answer.unwrap_err(), "an index that no renewal has");
        }
    }
    replace(&database, RELEASE, "RETURN NULL;").await;
    let released = store.release(ReleaseRequest::new(&key, owner)).await;
    is_bad(released.unwrap_err(), "no row");
}

#[tokio::test]
async fn a_request_says_what_it_wants_as_the_functions_know_it() {
    let database = Database::new().await;
    let store = database.store();
    let (key, owner) = (key(), owner(1));
    // They write down what they were asked.
    let noted = "CREATE TABLE asked (it text); GRANT ALL ON asked TO PUBLIC";
    database.client().await.batch_execute(noted).await.unwrap();
    let note = "INSERT INTO public.asked SELECT concat_ws(' ', _key, _owner, _ttl_ms, _most, _queue, _label, _function);
                is_granted := false; last_fence := 1;";
    replace(&database, ACQUIRE, note).await;
    let asked = async |request: AcquireRequest<'_>| -> String {
        store.acquire(request).await.unwrap();
        let client = database.client().await;
        let found = client
            .query_one("DELETE FROM asked RETURNING it", &[])
            .await;
        found.unwrap().get(0)
    };
    for (mode, most) in [
        (LockMode::Exclusive, 0),
        (LockMode::Shared, -1),
        (LockMode::Permits(3), 3),
        (LockMode::Permits(u32::MAX), i32::MAX),
    ] {
        let request = AcquireRequest::new(&key, owner, Duration::from_secs(30)).mode(mode);
        let expected = format!("order:42 {owner} 30000 {most} f  ");
        assert_eq!(asked(request).await, expected, "{mode}");
    }
    for (ttl, milliseconds) in [
        (Duration::from_millis(1500), 1500),
        // A lease is never shorter than the TTL.
        (Duration::from_micros(1_500_001), 1501),
        (Duration::from_micros(1_500_999), 1501),
    ] {
        let mut request = AcquireRequest::new(&key, owner, ttl).queue(Queue::ForLease);
        request.label = "billing";
        request.function = "f";
        let expected = format!("order:42 {owner} {milliseconds} 0 t billing f");
        assert_eq!(asked(request).await, expected);
    }
}

#[tokio::test]
async fn the_answers_of_a_batch_are_in_the_order_of_its_renewals() {
    let database = Database::new().await;
    let store = database.store();
    let keys = ["c", "a", "b"].map(|key| LockKey::new(key).unwrap());
    let owners = [1, 2, 3].map(owner);
    for (key, owner) in keys.iter().zip(owners).skip(1) {
        let request = AcquireRequest::new(key, owner, Duration::from_secs(30));
        store.acquire(request).await.unwrap();
    }
    let renewals =
        [0, 1, 2].map(|it| RenewRequest::new(&keys[it], owners[it], Duration::from_secs(60)));
    let answers = store.renew(RenewBatch::new(&renewals)).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        answers,
        [Renewal::NotOwner, Renewal::Renewed, Renewal::Renewed]
    );
}
