//! Bodies that panic, and futures that are dropped before their end.

use std::{future::pending, pin::Pin, time::Duration};

use dlock::{KeyPart, LockManager, PartWriter, distributed_lock, with_manager};
use tokio::runtime;

use crate::{Noisy, Result, manager, poll_once, record, record_blocking, say, while_held};

#[distributed_lock(key = "held")]
async fn for_ever(argument: Noisy) -> Result {
    say("body");
    let () = pending().await;
    drop(argument);
    Ok(())
}

/// F6: a panic in the body gives the lock back.
mod f6 {
    use super::*;
    use futures_util::FutureExt;
    use std::panic::AssertUnwindSafe;

    #[distributed_lock(key = "panic")]
    async fn panics(argument: Noisy) -> Result {
        say("body");
        assert_eq!(argument.name(), "other", "on purpose");
        Ok(())
    }

    #[tokio::test]
    async fn run() {
        let (unwound, events) = record(async {
            let body = panics(Noisy::new("argument"));
            AssertUnwindSafe(body).catch_unwind().await
        })
        .await;
        let message = unwound.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("on purpose"), "{message}");
        let expected = ["acquire panic", "body", "drop argument", "release panic"];
        assert_eq!(events, expected);
    }
}

/// F7: dropped while it waits, and while it holds.
mod f7 {
    use super::*;

    #[tokio::test]
    async fn while_it_holds() {
        let ((), events) = record(async { poll_once(for_ever(Noisy::new("argument"))) }).await;
        let expected = ["acquire held", "body", "drop argument", "release held"];
        assert_eq!(events, expected);
    }

    #[tokio::test]
    async fn while_it_waits() {
        let ((), events) = record(while_held("held", async {
            poll_once(for_ever(Noisy::new("argument")));
        }))
        .await;
        // It waits in this process, and the store has nothing of it.
        let expected = ["acquire held", "drop argument", "release held"];
        assert_eq!(events, expected);
    }
}

/// F8: dropped where no runtime is.
mod f8 {
    use super::*;

    fn current_thread() -> runtime::Runtime {
        runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    /// A call whose body has begun, and never ends.
    fn begun(runtime: &runtime::Runtime) -> Pin<Box<impl Future<Output = Result> + use<>>> {
        let mut held = Box::pin(with_manager(manager(), for_ever(Noisy::new("argument"))));
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = &mut held => unreachable!("it never ends"),
                () = tokio::task::yield_now() => {}
            }
        });
        held
    }

    #[test]
    fn outside_a_runtime() {
        let ((), events) = record_blocking(|| {
            let runtime = current_thread();
            let held = begun(&runtime);
            drop(held);
            runtime.block_on(manager().shutdown(Duration::from_secs(5)));
        });
        let expected = ["acquire held", "body", "drop argument", "release held"];
        assert_eq!(events, expected);
    }

    #[test]
    fn after_the_end_of_its_runtime() {
        let ((), events) = record_blocking(|| {
            let runtime = current_thread();
            let held = begun(&runtime);
            drop(runtime);
            drop(held);
        });
        let expected = ["acquire held", "body", "drop argument", "release held"];
        assert_eq!(events, expected);
    }
}

/// F9: before the first poll nothing happens, and no key is rendered.
mod f9 {
    use super::*;

    struct Rendered;

    impl KeyPart for Rendered {
        fn write_part(&self, to: &mut PartWriter<'_>) {
            say("render");
            to.push_str("it");
        }
    }

    fn chosen() -> LockManager {
        say("choose");
        manager()
    }

    fn ttl() -> Duration {
        say("ttl");
        Duration::from_secs(3)
    }

    #[distributed_lock(key = "<rendered>", manager = chosen(), ttl = ttl())]
    async fn lazy(rendered: Rendered) -> Result {
        say("body");
        Ok(())
    }

    #[tokio::test]
    async fn run() {
        let (output, events) = record(async {
            drop(lazy(Rendered));
            let future = lazy(Rendered);
            say("made");
            future.await
        })
        .await;
        assert_eq!(output, Ok(()));
        let expected = [
            "made",
            "choose",
            "ttl",
            "render",
            "acquire it",
            "body",
            "release it",
        ];
        assert_eq!(events, expected);
    }
}
