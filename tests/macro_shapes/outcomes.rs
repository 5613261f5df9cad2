//! `on_busy` and `on_error` for every shape of return type, alone and with the other options that
//! change how a function ends.

use std::{fmt::Debug, iter, time::Duration};

use axum::{http::StatusCode, response::IntoResponse};
use dlock::{LockError, distributed_lock};
use tokio::time::sleep;

use crate::{Fault, Result, record, while_held};

type Numbers = Box<dyn Iterator<Item = u8> + Send>;

macro_rules! outcomes {
    ($($variant:ident: [$($option:ident = $value:tt)?];)*) => { $(
        mod $variant {
            use super::*;

            #[distributed_lock(key = "job:<id>", wait = never, on_busy = Ok(7) $(, $option = $value)?)]
            async fn alias(id: u8) -> Result<u8> {
                Ok(id)
            }

            #[distributed_lock(
                key = "job:<id>",
                wait = never,
                on_error = |error| Err(error.to_string())
                $(, $option = $value)?
            )]
            async fn result(id: u8) -> core::result::Result<u8, String> {
                Ok(id)
            }

            #[distributed_lock(
                key = "job:<id>",
                wait = never,
                on_busy = Ok(vec![7, 7].into_iter())
                $(, $option = $value)?
            )]
            async fn opaque_in_result(id: u8) -> Result<impl Iterator<Item = u8> + Debug> {
                Ok(vec![id].into_iter())
            }

            #[distributed_lock(
                key = "job:<id>",
                wait = never,
                on_busy = Ok(Box::new(iter::repeat_n(7, 2))),
                on_error = |error| Err(error.into())
                $(, $option = $value)?
            )]
            async fn object_in_result(id: u8) -> Result<Numbers, Box<dyn std::error::Error + Send + Sync>> {
                Ok(Box::new(iter::once(id)))
            }

            #[distributed_lock(
                key = "job:<id>",
                wait = never,
                on_busy = None,
                on_error = |_| Some(8)
                $(, $option = $value)?
            )]
            async fn option(id: u8) -> Option<u8> {
                Some(id)
            }

            #[distributed_lock(
                key = "job:<id>",
                wait = never,
                on_busy = (),
                on_error = |error| assert!(matches!(error, LockError::NotInstalled { .. }))
                $(, $option = $value)?
            )]
            async fn nothing(id: u8) {
                assert_ne!(id, 1, "the lock of 1 is taken");
            }

            #[distributed_lock(
                key = "job:<id>",
                wait = never,
                on_error = |_| Box::new(iter::empty())
                $(, $option = $value)?
            )]
            async fn object(id: u8) -> Numbers {
                Box::new(iter::once(id))
            }

            #[distributed_lock(
                key = "job:<id>",
                wait = never,
                on_error = |error| (StatusCode::CONFLICT, error.to_string())
                $(, $option = $value)?
            )]
            async fn response(id: u8) -> impl IntoResponse {
                (StatusCode::OK, id.to_string())
            }

            #[distributed_lock(key = "job:<id>", wait = never $(, $option = $value)?)]
            async fn response_in_result(
                id: u8,
            ) -> core::result::Result<impl IntoResponse, Refusal> {
                Ok(id.to_string())
            }

            #[tokio::test(start_paused = true)]
            async fn run() {
                let calls = async {
                    assert_eq!((alias(1).await, alias(2).await), (Ok(7), Ok(2)));
                    assert!(result(1).await.unwrap_err().contains("job:1"));
                    assert_eq!(result(3).await, Ok(3));
                    assert_eq!(opaque_in_result(1).await.unwrap().count(), 2);
                    assert_eq!(opaque_in_result(4).await.unwrap().count(), 1);
                    assert_eq!(object_in_result(1).await.unwrap().count(), 2);
                    assert_eq!(object_in_result(5).await.unwrap().count(), 1);
                    assert_eq!((option(1).await, option(6).await), (None, Some(6)));
                    nothing(1).await;
                    nothing(7).await;
                    assert_eq!((object(1).await.count(), object(8).await.count()), (0, 1));
                    let busy = response(1).await.into_response();
                    assert_eq!(busy.status(), StatusCode::CONFLICT);
                    let done = response(9).await.into_response();
                    assert_eq!(done.status(), StatusCode::OK);
                    assert_eq!(status(response_in_result(1).await), StatusCode::CONFLICT);
                    assert_eq!(status(response_in_result(10).await), StatusCode::OK);
                    // What is kept is free again after this, which paused time makes no wait.
                    sleep(Duration::from_secs(2)).await;
                };
                let ((), events) = record(while_held("job:1", calls)).await;
                let acquired = events.iter().filter(|event| event.starts_with("acquire"));
                assert_eq!(acquired.count(), 1 + 9, "one by the test, one for each: {events:?}");
            }

            #[tokio::test]
            async fn what_is_not_busy_is_an_error() {
                assert!(matches!(
                    alias(2).await,
                    Err(Fault::Lock(LockError::NotInstalled { .. }))
                ));
                assert_eq!(option(2).await, Some(8));
                assert!(object_in_result(2).await.is_err());
                nothing(1).await;
            }
        }
    )* };
}

outcomes! {
    plain: [];
    detached: [on_cancel = detach];
    kept: [min_hold = "1s"];
    finishing: [on_lost = finish];
}

/// What a service answers; its details are for a log.
struct Refusal;

impl From<LockError> for Refusal {
    fn from(_: LockError) -> Self {
        Self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> axum::response::Response {
        StatusCode::CONFLICT.into_response()
    }
}

fn status(response: impl IntoResponse) -> StatusCode {
    response.into_response().status()
}
