//! `on_busy = skip`: the value of each return type that can say that nothing was done.

use dlock::{LockError, distributed_lock};

use crate::{Fault, Result, record, record::asked, say, while_held};

/// With `R<T>` for a result behind an alias.
type Answer<T> = std::result::Result<T, LockError>;

#[distributed_lock(key = "job", on_busy = skip, on_error = |error| say(error.code()))]
async fn nothing() {
    say("body");
}

#[distributed_lock(key = "job", on_busy = skip, on_error = |_| None)]
async fn option() -> Option<u8> {
    say("body");
    Some(1)
}

#[distributed_lock(key = "job", on_busy = skip)]
async fn result() -> Result {
    say("body");
    Ok(())
}

#[distributed_lock(key = "job", on_busy = skip)]
async fn option_in_result() -> Answer<Option<u8>> {
    say("body");
    Ok(Some(1))
}

#[distributed_lock(key = "job", on_busy = skip)]
async fn opaque_in_option() -> Result<Option<impl Iterator<Item = u8>>> {
    say("body");
    Ok(Some(std::iter::once(1)))
}

#[distributed_lock(key = "job", on_busy = skip, on_cancel = detach, on_lost = finish)]
async fn detached() -> Result<Option<u8>> {
    say("body");
    Ok(Some(1))
}

#[distributed_lock(key = ["job", "of:<shop>"], on_busy = skip)]
async fn with_two_keys(shop: u8) -> Result<Option<u8>> {
    say("body");
    Ok(Some(shop))
}

/// Its output is left to inference.
#[distributed_lock(key = "job", on_busy = skip)]
fn boxed() -> futures_util::future::BoxFuture<'static, Result<Option<u8>>> {
    Box::pin(async move {
        say("body");
        Ok(Some(1))
    })
}

trait Job: Sync {
    fn skip(&self) -> u8;
}

impl Job for u8 {
    fn skip(&self) -> u8 {
        *self
    }
}

/// Methods and variables of that name are the user's.
#[distributed_lock(key = "job", on_busy = skip)]
async fn other_things_of_that_name(job: &dyn Job) -> Result<Option<u8>> {
    let skip = job.skip();
    say("body");
    Ok(Some(skip))
}

/// In braces it is the parameter.
#[distributed_lock(key = "job", wait = never, on_busy = { skip })]
async fn parameter(skip: Result<u8>) -> Result<u8> {
    say("body");
    skip
}

#[tokio::test]
async fn a_busy_lock_is_skipped_at_once() {
    let calls = async {
        nothing().await;
        assert_eq!(option().await, None);
        assert_eq!(result().await, Ok(()));
        assert!(matches!(option_in_result().await, Ok(None)));
        assert!(opaque_in_option().await.unwrap().is_none());
        assert_eq!(detached().await, Ok(None));
        assert_eq!(with_two_keys(1).await, Ok(None));
        assert_eq!(boxed().await, Ok(None));
        assert_eq!(other_things_of_that_name(&7).await, Ok(None));
        assert_eq!(parameter(Ok(9)).await, Ok(9));
        // One by the test itself; none of the others has asked for a place in the queue.
        let patient = asked().iter().filter(|(_, waits)| *waits).count();
        assert_eq!(patient, 1);
    };
    let ((), events) = record(while_held("job", calls)).await;
    assert!(!events.contains(&"body".to_owned()), "{events:?}");
}

#[tokio::test]
async fn a_free_lock_is_taken() {
    let calls = async {
        nothing().await;
        assert_eq!(option().await, Some(1));
        assert_eq!(result().await, Ok(()));
        assert!(matches!(option_in_result().await, Ok(Some(1))));
        assert_eq!(opaque_in_option().await.unwrap().unwrap().count(), 1);
        assert_eq!(detached().await, Ok(Some(1)));
        assert_eq!(with_two_keys(1).await, Ok(Some(1)));
        assert_eq!(boxed().await, Ok(Some(1)));
        assert_eq!(other_things_of_that_name(&7).await, Ok(Some(7)));
        assert_eq!(parameter(Ok(9)).await, Ok(9));
    };
    let ((), events) = record(calls).await;
    assert_eq!(events.iter().filter(|event| *event == "body").count(), 10);
}

#[tokio::test]
async fn what_is_not_busy_is_no_reason_to_skip() {
    let not_installed = |error| matches!(error, Err(Fault::Lock(LockError::NotInstalled { .. })));
    assert!(not_installed(result().await));
    assert!(option_in_result().await.is_err());
    let ((), events) =
        record(async { dlock::with_manager(crate::manager(), nothing()).await }).await;
    assert_eq!(events, ["acquire job", "body", "release job"]);
}

/// A `wait` of its own counts.
#[distributed_lock(key = "job", wait = "3s", on_busy = skip)]
async fn patient() -> Result {
    say("body");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_set_comes_first() {
    let ((), events) = record(while_held("job", async {
        let began = tokio::time::Instant::now();
        assert_eq!(patient().await, Ok(()));
        assert!(began.elapsed() >= std::time::Duration::from_secs(3));
    }))
    .await;
    assert!(!events.contains(&"body".to_owned()), "{events:?}");
}
