//! What a function makes of a lock that it did not get.

use dlock::{LockError, distributed_lock};

use crate::{Fault, Result, record, while_held};

#[distributed_lock(key = "job:<id>", wait = never)]
async fn by_from(id: u8) -> Result<u8> {
    Ok(id)
}

#[distributed_lock(key = "job:<id>", wait = never, on_error = |error| error.to_string())]
async fn by_closure(id: u8) -> String {
    format!("ran {id}")
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "handlers are given the error"
)]
fn report(error: LockError) -> u8 {
    if matches!(error, LockError::Busy { .. }) {
        200
    } else {
        201
    }
}

#[distributed_lock(key = "job:<id>", wait = never, on_error = report)]
async fn by_path(id: u8) -> u8 {
    id
}

#[distributed_lock(key = "job:<id>", wait = never, on_error = drop)]
async fn without_value(id: u8) {
    assert_ne!(id, 1, "the lock of 1 is taken");
}

#[distributed_lock(key = "job:<id>", wait = never, on_error = |_| Vec::new().into_iter())]
async fn opaque(id: u8) -> impl Iterator<Item = u8> {
    vec![id].into_iter()
}

#[distributed_lock(key = "job:<id>", wait = never, on_busy = Ok(name))]
async fn skipped(id: u8, name: String) -> Result<String> {
    Ok(format!("{name} ran {id}"))
}

#[distributed_lock(key = "job:<id>", wait = never, on_busy = 0, on_error = |_| 1)]
async fn skipped_or_failed(id: &str) -> usize {
    id.len() + 10
}

#[distributed_lock(key = "job:<id>", wait = never, on_busy = panic!("{id} is taken"))]
async fn never_busy(id: u8) -> Result<u8> {
    Ok(id)
}

#[distributed_lock(key = "job:<id>", wait = never, on_busy = return Ok(0))]
async fn returns(id: u8) -> Result<u8> {
    Ok(id)
}

#[tokio::test]
async fn run() {
    let calls = async {
        assert!(matches!(
            by_from(1).await,
            Err(Fault::Lock(LockError::Busy { .. }))
        ));
        assert_eq!(by_from(2).await, Ok(2));
        assert!(by_closure(1).await.contains("job:1"));
        assert_eq!(by_closure(2).await, "ran 2");
        assert_eq!((by_path(1).await, by_path(2).await), (200, 2));
        without_value(1).await;
        without_value(2).await;
        assert_eq!((opaque(1).await.count(), opaque(2).await.count()), (0, 1));
        assert_eq!(skipped(1, "a".to_owned()).await, Ok("a".to_owned()));
        assert_eq!(skipped(2, "a".to_owned()).await, Ok("a ran 2".to_owned()));
        assert_eq!(skipped_or_failed("1").await, 0);
        assert_eq!(
            skipped_or_failed("").await,
            1,
            "an empty value makes no key"
        );
        assert_eq!(skipped_or_failed("22").await, 12);
        assert_eq!(never_busy(2).await, Ok(2));
        assert_eq!((returns(1).await, returns(2).await), (Ok(0), Ok(2)));
    };
    let ((), events) = record(while_held("job:1", calls)).await;
    // Once by the test, and once by each of the nine that ran.
    let acquired = events.iter().filter(|event| event.starts_with("acquire"));
    assert_eq!(acquired.count(), 10, "{events:?}");
}

#[tokio::test]
async fn no_manager() {
    assert!(matches!(
        by_from(1).await,
        Err(Fault::Lock(LockError::NotInstalled { .. }))
    ));
}
