//! Whatever calls do and wherever they are dropped, each is counted once and no gauge is left behind.

use std::{panic::AssertUnwindSafe, time::Duration};

use dlock::{LockError, LockManager, Wait, distributed_lock, with_manager};
use dlock_testkit::poll_times;
use futures_util::{FutureExt, future::join_all};
use proptest::prelude::*;
use tokio::time::{sleep, timeout};

use crate::common::{Fate, Faulty, Kind, assert_idle};
use crate::metrics::recorded::Recorded;

/// A third of it is longer than some bodies, and it is shorter than others.
const TTL: Duration = Duration::from_millis(600);

#[derive(Clone, Copy, Debug)]
enum What {
    Run,
    Panic,
    Release,
    Drop,
    Try,
    Several,
    Unrenewed,
    Limited,
    Kept,
    Detach,
}

#[derive(Clone, Copy, Debug)]
enum Until {
    Over,
    Polled(usize),
    Milliseconds(u64),
}

#[derive(Clone, Debug)]
struct Call {
    what: What,
    key: usize,
    of_other: bool,
    begins: u64,
    works: u64,
    waits: u64,
    until: Until,
}

#[derive(Clone, Debug)]
struct Plan {
    calls: Vec<Call>,
    faults: Vec<(Kind, u8)>,
    forgets: Option<u64>,
    shuts_down: Option<u64>,
}

fn call() -> impl Strategy<Value = Call> {
    use What::{Detach, Drop, Kept, Limited, Panic, Release, Run, Several, Try, Unrenewed};
    let what = [
        Run, Panic, Release, Drop, Try, Several, Unrenewed, Limited, Kept, Detach,
    ];
    let until = prop_oneof![
        2 => Just(Until::Over),
        2 => (1_usize..12).prop_map(Until::Polled),
        1 => (0_u64..1500).prop_map(Until::Milliseconds),
    ];
    let what = prop::sample::select(what.to_vec());
    let times = (0_u64..400, 0_u64..1500, 0_u64..2000);
    (what, 0_usize..2, any::<bool>(), times, until).prop_map(
        |(what, key, of_other, (begins, works, waits), until)| Call {
            what,
            key,
            of_other,
            begins,
            works,
            waits,
            until,
        },
    )
}

fn plan() -> impl Strategy<Value = Plan> {
    let kind = prop::sample::select(vec![Kind::Acquire, Kind::Renew, Kind::Release]);
    (
        prop::collection::vec(call(), 1..12),
        prop::collection::vec((kind, 0_u8..3), 0..6),
        prop::option::weighted(0.3, 0_u64..1500),
        prop::option::weighted(0.3, 0_u64..1500),
    )
        .prop_map(|(calls, faults, forgets, shuts_down)| Plan {
            calls,
            faults,
            forgets,
            shuts_down,
        })
}

#[distributed_lock(
    key = "<key>",
    ttl = TTL,
    wait = wait,
    on_cancel = detach,
    manager = locks
)]
async fn detached(
    key: &'static str,
    wait: Duration,
    works: Duration,
    locks: LockManager,
) -> Result<(), LockError> {
    sleep(works).await;
    Ok(())
}

const KEYS: [&str; 2] = ["a", "b"];

/// One call, whatever becomes of it.
async fn do_it(call: &Call, locks: &LockManager) {
    let [works, wait] = [call.works, call.waits].map(Duration::from_millis);
    let key = KEYS[call.key];
    let lock = locks.lock(key).ttl(TTL).wait(wait);
    let work = async |_: &dlock::Lease| sleep(works).await;
    match call.what {
        What::Run => drop(lock.run(work).await),
        What::Panic => {
            let panics = lock.run(async |_| {
                sleep(works).await;
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            drop(AssertUnwindSafe(panics).catch_unwind().await);
        }
        What::Release => {
            if let Ok(guard) = lock.acquire().await {
                sleep(works).await;
                drop(guard.release().await);
            }
        }
        What::Drop => {
            if let Ok(guard) = lock.acquire().await {
                sleep(works).await;
                drop(guard);
            }
        }
        What::Try => {
            if let Ok(Some(guard)) = lock.try_acquire().await {
                drop(guard.run_while_held(sleep(works)).await);
            }
        }
        What::Several => {
            let mut keys = KEYS;
            keys.rotate_left(call.key);
            let lock = locks.lock_all(keys).ttl(TTL).wait(Wait::For(wait));
            drop(lock.run(work).await);
        }
        What::Unrenewed => drop(lock.renew(false).run(work).await),
        What::Limited => drop(lock.max_hold(TTL / 2).run(work).await),
        What::Kept => drop(lock.min_hold(TTL / 2).run(work).await),
        What::Detach => drop(detached(key, wait, works, locks.clone()).await),
    }
}

async fn carry_out(plan: &Plan) {
    let recorded = Recorded::default();
    let _recorder = recorded.start();
    let faulty = Faulty::with_response_timeout(Duration::from_millis(100));
    for (kind, fate) in &plan.faults {
        let fate = [Fate::Lost, Fate::ReplyLost, Fate::Swallowed][usize::from(*fate)].clone();
        faulty.wire.next(*kind, fate);
    }
    let calls = plan.calls.iter().map(async |call| {
        sleep(Duration::from_millis(call.begins)).await;
        let locks = if call.of_other {
            &faulty.other
        } else {
            &faulty.manager
        };
        let calling = with_manager(locks.clone(), do_it(call, locks));
        match call.until {
            Until::Over => calling.await,
            Until::Polled(polls) => drop(poll_times(calling, polls).await),
            Until::Milliseconds(limit) => {
                drop(timeout(Duration::from_millis(limit), calling).await);
            }
        }
    });
    let forget = async {
        if let Some(at) = plan.forgets {
            sleep(Duration::from_millis(at)).await;
            faulty.store.forget();
        }
    };
    let shut_down = async {
        if let Some(at) = plan.shuts_down {
            sleep(Duration::from_millis(at)).await;
            faulty.manager.shutdown(Duration::from_millis(50)).await;
        }
    };
    tokio::join!(join_all(calls), forget, shut_down);
    assert_idle(&[&faulty.manager, &faulty.other]).await;

    recorded.assert_settled();
    let counted = ["acquired", "refused", "cancelled"];
    let counted = counted.map(|what| recorded.sum(&format!("dlock_{what}_total")));
    #[allow(clippy::cast_precision_loss, reason = "no test counts that far")]
    let begun = plan.calls.len() as f64;
    assert_eq!(counted.iter().sum::<f64>(), begun, "{counted:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn each_call_counts_once_and_gauges_get_back_to_zero(plan in plan()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(carry_out(&plan));
    }
}
