//! Options in each of the forms that their values can have, and what becomes of them.

use std::time::Duration;

use dlock::{LockError, LockManager, LostCause, Wait, distributed_lock};
use tokio::time::sleep;

use crate::{Fault, Result, record, record::asked, say, under, while_held};

/// How long a lease was asked for, and whether its asker would have waited.
async fn asked_by<T: std::fmt::Debug>(call: impl Future<Output = Result<T>>) -> (Duration, bool) {
    let (asked, _) = record(async {
        call.await.unwrap();
        asked()
    })
    .await;
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked[0]
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// L8, L10: durations.
mod durations {
    use super::*;

    const TTL: Duration = seconds(9);

    mod config {
        pub(super) const HOLD: std::time::Duration = std::time::Duration::from_secs(60);
        pub(super) static SHARED: std::time::Duration = std::time::Duration::from_secs(8);
    }

    trait Timed {
        const TTL: Duration;
    }

    struct Slow;

    impl Timed for Slow {
        const TTL: Duration = seconds(90);
    }

    impl Slow {
        #[distributed_lock(key = "associated", ttl = Self::TTL, wait = never)]
        async fn associated(&self) -> Result {
            say("body");
            Ok(())
        }
    }

    #[distributed_lock(
        key = "constants",
        ttl = TTL,
        wait = "5s",
        max_hold = config::HOLD,
        on_lost = finish,
    )]
    async fn constants() -> Result {
        Ok(())
    }

    #[distributed_lock(key = "literals", ttl = "1m30s", wait = forever, renew = false, on_lost = stop)]
    async fn literals() -> Result {
        Ok(())
    }

    #[distributed_lock(ttl = "250ms", wait = "1h", key = "brief")]
    async fn brief() -> Result {
        Ok(())
    }

    #[distributed_lock(key = "values", ttl = ttl, wait = patience)]
    async fn values(ttl: Duration, patience: Wait) -> Result {
        Ok(())
    }

    #[distributed_lock(key = "calls", ttl = ttl * 2, wait = Duration::from_millis(5))]
    async fn calls(ttl: Duration) -> Result {
        Ok(())
    }

    #[distributed_lock(key = "statics", ttl = config::SHARED, wait = Wait::Never)]
    async fn statics() -> Result {
        Ok(())
    }

    #[distributed_lock(key = "generic", ttl = T::TTL, max_hold = <T as Timed>::TTL)]
    async fn generic<T: Timed>() -> Result {
        Ok(())
    }

    #[distributed_lock(key = "block", ttl = { let ttl = 4; seconds(ttl) }, wait = if now { Wait::Never } else { Wait::Forever })]
    async fn block(now: bool) -> Result {
        Ok(())
    }

    // In capitals, as constants are.
    #[expect(non_snake_case, reason = "it is the case")]
    #[distributed_lock(key = "capitals", ttl = T)]
    async fn capitals(T: Duration) -> Result {
        Ok(())
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(asked_by(capitals(seconds(3))).await, (seconds(3), true));
        assert_eq!(asked_by(constants()).await, (seconds(9), true));
        assert_eq!(asked_by(literals()).await, (seconds(90), true));
        assert_eq!(asked_by(brief()).await, (Duration::from_millis(250), true));
        assert_eq!(
            asked_by(values(seconds(3), Wait::Never)).await,
            (seconds(3), false)
        );
        assert_eq!(asked_by(calls(seconds(4))).await, (seconds(8), true));
        assert_eq!(asked_by(statics()).await, (seconds(8), false));
        assert_eq!(asked_by(Slow.associated()).await, (seconds(90), false));
        assert_eq!(asked_by(generic::<Slow>()).await, (seconds(90), true));
        assert_eq!(asked_by(block(true)).await, (seconds(4), false));
        assert_eq!(asked_by(block(false)).await, (seconds(4), true));
    }

    #[tokio::test]
    async fn a_value_out_of_bounds_is_refused() {
        let (output, events) = record(values(Duration::from_millis(1), Wait::Never)).await;
        let refused = matches!(output, Err(Fault::Lock(LockError::InvalidOption { .. })));
        assert!(refused, "{output:?}");
        assert_eq!(events, [""; 0]);
    }
}

/// What happens at the end of a lease. Time is paused: it passes when everybody sleeps.
mod losses {
    use super::*;

    #[distributed_lock(key = "k", ttl = "1s")]
    async fn renewed() -> Result {
        sleep(seconds(9)).await;
        say("body");
        Ok(())
    }

    #[distributed_lock(key = "k", ttl = "1s", renew = false)]
    async fn not_renewed() -> Result {
        sleep(seconds(9)).await;
        say("body");
        Ok(())
    }

    #[distributed_lock(key = "k", ttl = "1s", renew = false, on_lost = finish)]
    async fn finished() -> Result {
        sleep(seconds(9)).await;
        say("body");
        Ok(())
    }

    #[distributed_lock(key = "k", ttl = "1s", max_hold = "3s", on_lost = stop)]
    async fn limited() -> Result {
        sleep(seconds(9)).await;
        say("body");
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn run() {
        assert_eq!(under("k", renewed()).await, Ok(()));
        let (output, events) = record(finished()).await;
        assert_eq!(output, Ok(()));
        assert!(events.contains(&"body".to_owned()), "{events:?}");
        for (call, within) in [
            (record(not_renewed()).await, seconds(1)..seconds(3)),
            (record(limited()).await, seconds(3)..seconds(5)),
        ] {
            let (output, events) = call;
            let Err(Fault::Lock(LockError::Lost {
                held_for, cause, ..
            })) = output
            else {
                panic!("{output:?}")
            };
            assert!(within.contains(&held_for), "{held_for:?}");
            assert_ne!(cause, LostCause::Revoked);
            assert!(!events.contains(&"body".to_owned()), "{events:?}");
        }
    }
}

/// How long one waits.
mod patience {
    use super::*;

    #[distributed_lock(key = "k", wait = "3s")]
    async fn patient() -> Result {
        Ok(())
    }

    #[distributed_lock(key = "k", wait = never)]
    async fn impatient() -> Result {
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn run() {
        let (waits, _) = record(while_held("k", async {
            [patient().await, impatient().await].map(|output| match output {
                Err(Fault::Lock(LockError::Busy { waited, .. })) => waited,
                other => panic!("{other:?}"),
            })
        }))
        .await;
        assert!(waits[0] >= seconds(3), "{waits:?}");
        assert!(waits[1] < seconds(1), "{waits:?}");
    }
}

/// Where the manager comes from.
mod managers {
    use super::*;
    use std::sync::Arc;

    struct Shop {
        locks: LockManager,
        shared: Arc<LockManager>,
    }

    impl Shop {
        #[distributed_lock(key = "field", manager = self.locks)]
        async fn field(&self) -> Result<usize> {
            Ok(self.locks.active_keys())
        }

        #[distributed_lock(key = "reference", manager = &self.locks)]
        async fn reference(&mut self) -> Result<usize> {
            Ok(self.locks.active_keys())
        }

        #[distributed_lock(key = "pointer", manager = self.shared)]
        async fn pointer(&self) -> Result<usize> {
            Ok(self.shared.active_keys())
        }

        #[distributed_lock(key = "made", manager = Arc::new(self.locks.clone()))]
        async fn made(&self) -> Result<usize> {
            Ok(self.locks.active_keys())
        }

        #[distributed_lock(key = "moved", manager = self.locks)]
        async fn moved(self) -> Result<usize> {
            let locks = self.locks;
            Ok(locks.active_keys())
        }

        fn of(&self, tenant: u8) -> Result<&LockManager> {
            (tenant == 1).then_some(&self.locks).ok_or(Fault::Refused)
        }

        #[distributed_lock(key = "tenant:<tenant>", manager = self.of(tenant)?)]
        async fn tenant(&self, tenant: u8) -> Result<usize> {
            Ok(self.locks.active_keys())
        }
    }

    macro_rules! cast {
        ($locks:ident: $ty:ty, $manager:expr) => {
            #[distributed_lock(key = "cast", manager = $manager)]
            async fn cast($locks: $ty) -> Result<usize> {
                Ok($locks.active_keys())
            }
        };
    }
    cast!(locks: &LockManager, locks as &LockManager);

    #[tokio::test]
    async fn run() {
        let locks = LockManager::memory();
        let shared = Arc::new(locks.clone());
        let mut shop = Shop { locks, shared };
        let calls = [
            shop.field().await,
            shop.reference().await,
            shop.pointer().await,
            shop.made().await,
            shop.tenant(1).await,
            cast(&shop.locks).await,
            shop.moved().await,
        ];
        assert_eq!(calls, [(); 7].map(|()| Ok(1)));
    }
}

/// L10: options that are words, from another macro. Parsers see most fragments in invisible groups.
mod fragments {
    use super::*;

    macro_rules! words {
        ($lease:ident, $wait:ident, $lost:ident) => {
            #[distributed_lock(key = "words", lease = $lease, wait = $wait, on_lost = $lost)]
            async fn words() -> Result<String> {
                say("body");
                Ok($lease.key().to_string())
            }
        };
    }
    words!(lease, never, finish);

    macro_rules! nested {
        ($renew:expr) => {
            nested!(@ $renew, "10s");
        };
        (@ $renew:expr, $ttl:expr) => {
            #[distributed_lock(key = "nested", renew = $renew, ttl = $ttl)]
            async fn nested() -> Result {
                say("body");
                Ok(())
            }
        };
    }
    nested!(false);

    macro_rules! options {
        ($($options:tt)*) => {
            #[distributed_lock($($options)*)]
            async fn options() -> Result {
                say("body");
                Ok(())
            }
        };
    }
    options!(
        key = "tokens",
        on_busy = Ok(()),
        renew = true,
        max_hold = "5m"
    );

    #[tokio::test]
    async fn run() {
        assert_eq!(under("words", words()).await, Ok("words".to_owned()));
        assert_eq!(under("nested", nested()).await, Ok(()));
        assert_eq!(under("tokens", options()).await, Ok(()));
    }
}
