//! Tests of the selection of the master, and of the error without one.

mod news;

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use dlock_testkit::eventually;
use tokio::sync::Notify;

use super::*;
use crate::store::redis::fake::{Fake, bulk, courtesy};

/// The limit of one attempt to connect.
const LIMIT: Duration = Duration::from_secs(2);

/// Longer than any operation here takes, unless it hangs.
const LONG: Duration = Duration::from_secs(60);

fn master(epoch: u64, port: u16) -> NamedMaster {
    let address = Address::Tcp("h".into(), port);
    NamedMaster { epoch, address }
}

fn sentinels() -> Sentinels {
    let location = Location::parse("redis-sentinel://:s3cret@a,b,c/m").unwrap();
    Sentinels::new(&location, "m")
}

#[test]
fn a_stale_sentinel_does_not_lead_to_an_old_master() {
    let (old, new) = (master(3, 1), master(4, 2));
    let chosen = choose(&[old.clone(), new.clone()], Some(&old), true);
    assert_eq!(chosen, Some(new.clone()));
    let chosen = choose(&[old.clone(), old.clone(), new.clone()], Some(&old), true);
    assert_eq!(chosen, Some(new.clone()), "epochs go before votes");
    // Without permission to read epochs, the address with the most votes wins.
    let blind = [master(0, 1), master(0, 2), master(0, 2)];
    assert_eq!(choose(&blind, Some(&blind[0]), true), Some(master(0, 2)));
    assert_eq!(choose(&[], Some(&new), false), None, "no answer");
    // They have been set up again, and count from the beginning.
    assert_eq!(
        choose(std::slice::from_ref(&old), Some(&new), true),
        Some(old)
    );
}

#[test]
fn less_than_a_majority_cannot_lead_back() {
    let (old, new) = (master(3, 1), master(4, 2));
    assert_eq!(
        choose(std::slice::from_ref(&old), Some(&new), false),
        Some(new.clone())
    );
    assert_eq!(
        choose(std::slice::from_ref(&new), Some(&old), false),
        Some(new.clone())
    );
}

#[test]
fn two_ways_to_write_an_address_are_no_reason_to_move() {
    let (one, other) = (master(4, 1), master(4, 2));
    for known in [&one, &other] {
        let answers = [one.clone(), other.clone(), other.clone(), one.clone()];
        for answers in [&answers[..3], &answers[1..]] {
            let chosen = choose(answers, Some(known), true);
            assert_eq!(chosen.as_ref(), Some(known));
        }
    }
}

#[test]
fn it_is_hopeless_only_if_all_say_so() {
    use StoreErrorKind::{Unauthenticated, UnknownService, Unreachable};
    let all = sentinels();
    let error = |kind| StoreError::new(kind, format!("{kind:?}"));
    let nobody = |kinds: &[StoreErrorKind]| {
        let errors: Vec<_> = kinds.iter().copied().map(error).collect();
        all.nobody(&errors)
    };
    let unknown = nobody(&[UnknownService, UnknownService]);
    assert_eq!(unknown.kind(), UnknownService);
    assert!(unknown.is_final() && unknown.left_nothing());
    let text = unknown.to_string();
    assert!(
        text.starts_with("no Sentinel knows the service `m`; check the service name"),
        "{text}"
    );

    assert_eq!(
        nobody(&[Unauthenticated, UnknownService]).kind(),
        Unauthenticated
    );
    let some = nobody(&[Unreachable, UnknownService]);
    assert_eq!(some.kind(), Unreachable);
    assert!(some.message().ends_with("UnknownService"), "{some}");
    assert_eq!(nobody(&[Unreachable, Unreachable]).kind(), Unreachable);
}

#[test]
fn answers_are_read_in_either_protocol() {
    let text = |text: &str| Value::BulkString(text.into());
    let pair = |name: &str, value: &str| (text(name), text(value));
    let map = vec![pair("name", "m"), pair("config-epoch", "7")];
    assert_eq!(epoch(&Value::Map(map)), Some(7));
    let flat = ["name", "m", "config-epoch", "8"].map(text).to_vec();
    assert_eq!(epoch(&Value::Array(flat)), Some(8));
    assert_eq!(epoch(&Value::Nil), None);
    let address = Value::Array(vec![text("10.0.0.1"), text("6379")]);
    let expected = Address::Tcp("10.0.0.1".into(), 6379);
    assert_eq!(read_address(&address), Some(expected));
    assert_eq!(read_address(&Value::Int(1)), None);
}

/// The Sentinel with the subscription hangs, so no message arrives: the others receive a request.
#[tokio::test]
async fn a_move_that_nobody_tells_of_is_found_out() {
    let all = dlock_testkit::Sentinels::start().await;
    let location = Location::parse(&all.url()).unwrap();
    let sentinels = Sentinels::new(&location, all.service());
    let known = sentinels.find(Duration::from_secs(20)).await.unwrap();
    let first = all.master().await;
    assert_eq!(
        known.address(),
        &Address::Tcp("127.0.0.1".into(), first.port())
    );

    let moved = async {
        let pause = Duration::from_millis(500);
        sentinels.moved(known.address(), pause, LIMIT).await
    };
    let break_down = async {
        let mut listened_to = None;
        while listened_to.is_none() {
            for index in 0..3 {
                let mut connection = all.sentinel_connection(index).await;
                let list = redis::cmd("CLIENT").arg("LIST").to_owned();
                let list: String = list.query_async(&mut connection).await.unwrap();
                if list.contains(" sub=1 ") {
                    listened_to = Some(index);
                }
            }
        }
        all.pause_sentinel(listened_to.expect("it was waited for"));
        first.kill();
        all.master_after(first).await.port()
    };
    let both = async { tokio::join!(moved, break_down) };
    let (told, port) = timeout(LONG, Box::pin(both)).await.unwrap();
    let expected = format!("is now at 127.0.0.1:{port}");
    assert!(told.message().ends_with(&expected), "{told}");
    let now = sentinels.find(Duration::from_secs(20)).await.unwrap();
    assert_eq!(now.address(), &Address::Tcp("127.0.0.1".into(), port));
}

/// Starts a Sentinel that names `master` once `may_answer` is set, but does not answer on its first connections.
async fn fake(master: &NamedMaster, silent: usize, may_answer: Option<&Arc<Notify>>) -> Fake {
    let (master, may_answer) = (master.clone(), may_answer.cloned());
    Fake::silent_at_first(silent, move |words| {
        let (master, may_answer) = (master.clone(), may_answer.clone());
        async move {
            let Address::Tcp(host, port) = &master.address else {
                unreachable!("the tests have no other");
            };
            match words[0].as_str() {
                "SENTINEL" if words[1] == "MASTER" => {
                    if let Some(may_answer) = may_answer {
                        may_answer.notified().await;
                    }
                    let epoch = master.epoch.to_string();
                    format!("%1\r\n{}{}", bulk("config-epoch"), bulk(&epoch))
                }
                "SENTINEL" => format!("*2\r\n{}{}", bulk(host), bulk(&port.to_string())),
                _ => courtesy(&words),
            }
        }
    })
    .await
}

fn over(fakes: &[Fake]) -> Sentinels {
    let hosts: Vec<_> = fakes
        .iter()
        .map(|fake| format!("127.0.0.1:{}", fake.port))
        .collect();
    let url = format!("redis-sentinel://{}/m", hosts.join(","));
    Sentinels::new(&Location::parse(&url).unwrap(), "m")
}

/// One connection is enough for any number of requests.
#[tokio::test]
async fn sentinels_are_asked_over_one_connection_each() {
    const ROUNDS: usize = 4;
    let known = master(3, 1);
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = async || {
        let asked = asked.clone();
        Fake::start(move |words| {
            let asked = asked.clone();
            async move {
                match words[0].as_str() {
                    "SENTINEL" if words[1] == "MASTER" => {
                        asked.fetch_add(1, Ordering::Relaxed);
                        format!("%1\r\n{}{}", bulk("config-epoch"), bulk("3"))
                    }
                    "SENTINEL" => format!("*2\r\n{}{}", bulk("h"), bulk("1")),
                    _ => courtesy(&words),
                }
            }
        })
        .await
    };
    let fakes = [counting().await, counting().await, counting().await];
    let sentinels = over(&fakes);
    let enough = eventually(LONG, "they are asked again and again", async || {
        asked.load(Ordering::Relaxed) >= ROUNDS * fakes.len()
    });
    tokio::select! {
        error = sentinels.moved(&known.address, LEAST_PAUSE, LIMIT) => panic!("{error}"),
        () = enough => {}
    }
    let connections = fakes.iter().map(Fake::connections).sum::<usize>();
    assert_eq!(connections, fakes.len() + 1, "one more to subscribe");

    // A lost connection is replaced within the same request.
    let broken = Session::open(&sentinels.all[0], AsyncConnectionConfig::new(), LIMIT);
    let broken = broken.await.unwrap();
    broken.driver.end().end();
    *sentinels.kept[0].lock().unwrap() = Some(broken);
    assert_eq!(sentinels.master(LIMIT, 3).await, Ok(known.address));
}

/// A connection is kept by the Sentinels, and may be that of another caller.
#[test]
fn a_connection_of_a_runtime_that_is_not_polled_is_not_used() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let (unpolled, other) = (runtime(), runtime());
    let around = tokio::runtime::Runtime::new().unwrap();
    let known = master(3, 1);
    let fakes = [around.block_on(fake(&known, 0, None))];
    let sentinels = over(&fakes);
    for runtime in [&unpolled, &other] {
        // Half of the time would be for an answer over the first connection.
        let asked = sentinels.master(LONG, 1);
        let asked = runtime.block_on(async { timeout(LONG / 3, asked).await });
        assert_eq!(asked.expect("it is answered"), Ok(known.address.clone()));
    }
}

/// As for a stopped process: the operating system accepts the connection instead.
#[tokio::test]
async fn a_sentinel_that_never_answers_does_not_end_the_watch() {
    let (old, new) = (master(3, 1), master(4, 2));
    // The Sentinel for the subscription, which then answers requests.
    let fakes = [fake(&new, 1, None).await];
    let sentinels = over(&fakes);
    let moved = sentinels.moved(&old.address, LEAST_PAUSE, LIMIT);
    let told = timeout(LONG, moved).await.expect("it needs no message");
    assert!(
        told.message()
            .ends_with(&format!("is now at {}", new.address)),
        "{told}"
    );
}

/// An isolated majority answers first, and the Sentinel with the newer master is slow.
#[tokio::test]
async fn a_stale_majority_that_is_faster_does_not_lead_back() {
    let (old, new) = (master(3, 1), master(4, 2));
    let may_answer = Arc::new(Notify::new());
    let fakes = [
        fake(&new, 0, Some(&may_answer)).await,
        fake(&old, 0, None).await,
        fake(&old, 0, None).await,
    ];
    let sentinels = over(&fakes);
    *sentinels.latest() = Some(new.clone());
    {
        let mut found = pin!(sentinels.find(LONG));
        let brief = Duration::from_millis(300);
        let early = timeout(brief, found.as_mut()).await;
        assert!(early.is_err(), "the third may know better: {early:?}");
        may_answer.notify_one();
        assert_eq!(found.await.unwrap().address(), &new.address);
    }
    // A watcher decides by the same rule.
    let answers = sentinels.master(LONG, fakes.len());
    may_answer.notify_one();
    assert_eq!(answers.await, Ok(new.address.clone()));

    // No Sentinel knows the newer master any more, for example after a new setup.
    let fakes = [
        fake(&old, 0, None).await,
        fake(&old, 0, None).await,
        fake(&new, usize::MAX, None).await,
    ];
    let sentinels = over(&fakes);
    *sentinels.latest() = Some(new);
    let found = sentinels.find(2 * LIMIT).await.unwrap();
    assert_eq!(found.address(), &old.address);
}

/// An isolated Sentinel answers first, and no master is known for a comparison.
#[tokio::test]
async fn a_master_is_not_believed_in_before_a_majority_has_named_one() {
    let (old, new) = (master(3, 1), master(4, 2));
    let may_answer = Arc::new(Notify::new());
    let fakes = [
        fake(&old, 0, None).await,
        fake(&new, 0, Some(&may_answer)).await,
        fake(&new, usize::MAX, None).await,
    ];
    let sentinels = over(&fakes);
    let mut found = pin!(sentinels.find(LONG));
    let brief = Duration::from_millis(300);
    let early = timeout(brief, found.as_mut()).await;
    assert!(early.is_err(), "one of three is no majority: {early:?}");
    may_answer.notify_one();
    assert_eq!(found.await.unwrap().address(), &new.address);

    // Without a majority, the remaining answers decide: a known master needs no Sentinel at all.
    let fakes = [
        fake(&old, 0, None).await,
        fake(&new, usize::MAX, None).await,
        fake(&new, usize::MAX, None).await,
    ];
    let sentinels = over(&fakes);
    let found = sentinels.find(LIMIT).await.unwrap();
    assert_eq!(found.address(), &old.address);
    // But it does not return to a master before the known one, although no other Sentinel can answer.
    *sentinels.latest() = Some(new.clone());
    let found = sentinels.find(LIMIT).await.unwrap();
    assert_eq!(found.address(), &new.address);
}
