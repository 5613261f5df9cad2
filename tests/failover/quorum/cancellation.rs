//! A call dropped at any await leaves nothing on any node.

use dlock::{
    LockManager,
    store::{LockStore, ReleaseRequest, memory::MemoryStore, quorum::Quorum},
};
use dlock_testkit::{Polled, eventually, poll_times, poll_times_then_wake};
use tokio::runtime::Builder;

use crate::common::{Fate, Kind, LIMIT, NODES, OneKey, Wire, assert_idle, soon};
use crate::quorum::{TTL, owner};

/// Nodes behind connections of their own: each answer is an await.
struct Wired {
    stores: [MemoryStore; NODES],
    manager: LockManager,
}

impl Wired {
    fn start() -> Self {
        let stores = [(); NODES].map(|()| MemoryStore::new());
        Self {
            manager: LockManager::builder()
                .build_with_store(Self::over(&stores))
                .unwrap(),
            stores,
        }
    }

    fn over(stores: &[MemoryStore]) -> Quorum {
        Quorum::of(stores.iter().map(|store| Wire::new(store.clone()))).unwrap()
    }

    fn is_clean(&self) -> bool {
        self.stores.iter().all(MemoryStore::is_empty)
    }

    async fn assert_clean(&self) {
        assert_idle(&[&self.manager]).await;
        eventually(LIMIT, "nothing is left", async || self.is_clean()).await;
    }
}

async fn poll<F: Future>(future: F, polls: usize, is_woken: bool) -> Polled<F::Output> {
    let future = Box::pin(future);
    if is_woken {
        soon(poll_times_then_wake(future, polls)).await
    } else {
        soon(poll_times(future, polls)).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_section_that_is_dropped_anywhere_leaves_nothing() {
    for is_woken in [false, true] {
        for polls in 0.. {
            let wired = Wired::start();
            let section = async {
                let guard = wired.manager.lock("order:42").acquire().await.unwrap();
                guard.release().await.unwrap();
            };
            let polled = poll(section, polls, is_woken).await;
            wired.assert_clean().await;
            if let Polled::Finished(()) = polled {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_anywhere_leaves_nothing() {
    for is_woken in [false, true] {
        for polls in 0.. {
            let wired = Wired::start();
            let holding = OneKey::new(Wired::over(&wired.stores), "order:42");
            let holder = owner();
            holding.granted(holder, TTL).await;
            let waiting = async {
                let guard = wired.manager.lock("order:42").wait(TTL).acquire().await;
                guard.unwrap().release().await.unwrap();
            };
            let release = async {
                tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
                holding.release(holder).await;
                std::future::pending::<()>().await;
            };
            let polled = {
                let both = async {
                    tokio::select! {
                        () = waiting => {}
                        () = release => {}
                    }
                };
                poll(both, polls, is_woken).await
            };
            holding.release(holder).await;
            wired.assert_clean().await;
            if let Polled::Finished(()) = polled {
                break;
            }
        }
    }
}

/// The same without a manager, which gives back what its callers leave: whoever asks again is told
/// the same, and a release frees all.
#[tokio::test(start_paused = true)]
async fn a_question_that_is_dropped_anywhere_can_be_asked_again_or_released() {
    for is_asked_again in [false, true] {
        for polls in 0.. {
            let wired = Wired::start();
            let key = OneKey::new(Wired::over(&wired.stores), "order:42");
            let holder = owner();
            let polled = poll(key.granted(holder, TTL), polls, false).await;
            if is_asked_again {
                let fence = key.granted(holder, TTL).await;
                assert_eq!(key.granted(holder, TTL).await, fence);
            }
            key.store
                .release(ReleaseRequest::new(&key.key, holder))
                .await
                .unwrap();
            wired.assert_clean().await;
            if let Polled::Finished(_) = polled {
                break;
            }
        }
    }
}

/// What some nodes still have when a release is answered is given back where the manager was made, if
/// the runtime that has asked is no more.
#[test]
fn a_runtime_that_ends_after_a_release_leaves_the_rest_to_another_one() {
    let home = Builder::new_multi_thread().enable_all().build().unwrap();
    let ending = Builder::new_current_thread().enable_all().build().unwrap();
    let stores = [(); NODES].map(|()| MemoryStore::new());
    let (wires, quorum, manager) = {
        let _home = home.enter();
        let wires = stores.clone().map(Wire::new);
        let quorum = Quorum::of(wires.clone()).unwrap();
        let manager = LockManager::builder()
            .build_with_store(quorum.clone())
            .unwrap();
        (wires, quorum, manager)
    };
    let away = &wires[..NODES / 2];
    let key = OneKey::new(quorum, "order:42");
    ending.block_on(async {
        let holder = owner();
        key.granted(holder, TTL).await;
        for wire in away {
            wire.always(Kind::Release, Fate::Lost);
        }
        soon(key.release(holder)).await;
    });
    drop(ending);
    away.iter().for_each(Wire::heal);
    home.block_on(eventually(LIMIT, "nothing is left", async || {
        stores.iter().all(MemoryStore::is_empty)
    }));
    drop(manager);
}
