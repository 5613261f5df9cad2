//! The holder of a key, for the answer to a request that finds the key busy.

use std::time::Duration;

use dlock_runtime::{
    LockMode,
    store::{GRANT_TTL, Holder},
};
use futures_util::future::join_all;

use crate::{
    conn::Conn,
    keys::Stage,
    queue::{Entry, Queue},
};

/// The rests of so many leases are read. Beyond, the answer does without.
const MOST: usize = 8;

/// Describes the holder of the key. `own` is the name of the caller's key, if it waits.
pub(crate) async fn find(conn: &Conn, queue: &Queue, own: Option<&[u8]>, mode: LockMode) -> Holder {
    let rests = rests(conn, &leases(queue)).await;
    let rest = |lease| {
        let mut known = rests.iter();
        known.find(|(id, _)| *id == lease).map(|(_, rest)| *rest)
    };
    describe(queue, rest, own, mode)
}

/// The leases of the holders, if they are so few that their rests are read.
pub(crate) fn leases(queue: &Queue) -> Vec<i64> {
    let leases: Vec<_> = queue.holders().map(|it| it.lease).collect();
    if leases.len() <= MOST {
        leases.into_iter().filter(|lease| *lease != 0).collect()
    } else {
        Vec::new()
    }
}

/// The rests of these leases. They only inform, so a failure is no answer.
pub(crate) async fn rests(conn: &Conn, leases: &[i64]) -> Vec<(i64, Duration)> {
    let asked = leases
        .iter()
        .map(async |lease| Some((*lease, conn.rest(*lease).await.ok()?)));
    join_all(asked).await.into_iter().flatten().collect()
}

/// Describes the holder of the key by what is known of the rests of leases.
pub(crate) fn describe(
    queue: &Queue,
    rest: impl Fn(i64) -> Option<Duration>,
    own: Option<&[u8]>,
    mode: LockMode,
) -> Holder {
    let holders: Vec<_> = queue.holders().collect();
    let rests: Vec<_> = holders.iter().map(|it| rest_of(it, &rest)).collect();
    let newest = holders.iter().map(|it| it.own_fence()).max().unwrap_or(0);
    // A grant to the caller has the fence of its key. All that were granted before it asked are smaller.
    let last_fence = match own.and_then(|own| queue.get(own)) {
        Some(own) => own.own_fence() - 1,
        None => newest,
    };
    let mut described = Holder::new(last_fence);
    let by_rest = || holders.iter().zip(&rests);
    let Some((last, _)) = by_rest().max_by_key(|(_, rest)| **rest) else {
        return described;
    };
    let value = last.value.as_ref();
    described.fence = value
        .and_then(|value| value.epoch)
        .unwrap_or_else(|| last.own_fence());
    described.label = value.and_then(|value| value.label.clone());
    described.function = value.and_then(|value| value.function.clone());
    described.never_ends = last.lease == 0;
    described.others = u64::try_from(holders.len() - 1).unwrap_or(u64::MAX);
    described.position = own.and_then(|own| queue.position(own));
    // A permit is free when the first lease has ended, everything else when the last one has. That may be one whose rest
    // is not known.
    let ending = holders.iter().zip(rests).filter(|(it, _)| it.lease != 0);
    let ends: Option<Vec<_>> = ending.map(|(_, rest)| rest).collect();
    described.ttl = ends.and_then(|ends| match mode {
        LockMode::Permits(_) => ends.into_iter().min(),
        _ if holders.iter().any(|it| it.lease == 0) => None,
        _ => ends.into_iter().max(),
    });
    described
}

fn rest_of(holder: &Entry, rest: impl Fn(i64) -> Option<Duration>) -> Option<Duration> {
    let rest = rest(holder.lease).filter(|_| holder.lease != 0)?;
    Some(as_accepted(holder, rest))
}

/// A grant that its claim has not accepted ends soon, although the lease of waiters goes on.
pub(crate) fn as_accepted(holder: &Entry, rest: Duration) -> Duration {
    let stage = holder.value.as_ref().map(|value| &value.stage);
    let is_accepted = !matches!(stage, Some(Stage::Waits { .. }));
    if is_accepted {
        rest
    } else {
        rest.min(GRANT_TTL)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{keys::Value, proto::KeyValue};

    #[test]
    fn a_grant_that_is_not_accepted_ends_soon() {
        for (stage, ttl) in [
            (Stage::waits_now(None), GRANT_TTL),
            (Stage::holds_now(), Duration::from_secs(9)),
            (Stage::Unknown, Duration::from_secs(9)),
        ] {
            let value = Value::plain(1, stage.clone());
            let kv = KeyValue {
                key: b"n/k/1".to_vec(),
                create_revision: 1,
                value: value.to_bytes(),
                lease: 7,
                ..KeyValue::default()
            };
            let queue = Queue::read(&[kv]);
            let rest = |lease| (lease == 7).then_some(Duration::from_secs(9));
            let holder = describe(&queue, rest, None, LockMode::Exclusive);
            assert_eq!(holder.ttl, Some(ttl), "{stage:?}");
        }
    }

    #[test]
    fn an_end_is_told_if_no_other_lease_can_be_the_one() {
        const TWO: LockMode = LockMode::Permits(2);
        let seconds = |it: Option<u64>| it.map(Duration::from_secs);
        for (first, second, of_permit, of_readers) in [
            ((7, Some(9)), (8, Some(2)), Some(2), Some(9)),
            ((7, Some(9)), (8, None), None, None),
            // The second one never ends.
            ((7, Some(9)), (0, None), Some(9), None),
        ] {
            let both = [(1, first.0), (2, second.0)].map(|(revision, lease)| KeyValue {
                key: format!("n/k/{revision}").into_bytes(),
                create_revision: revision,
                value: Value {
                    mode: TWO,
                    ..Value::plain(2, Stage::holds_now())
                }
                .to_bytes(),
                lease,
                ..KeyValue::default()
            });
            let queue = Queue::read(&both);
            assert_eq!(queue.holders().count(), 2);
            let rest = |lease| {
                let all = [first, second].into_iter();
                let mut known = all.filter(|(it, _)| *it == lease);
                seconds(known.next()?.1)
            };
            let ttl = |mode| describe(&queue, rest, None, mode).ttl;
            assert_eq!(ttl(TWO), seconds(of_permit));
            assert_eq!(ttl(LockMode::Shared), seconds(of_readers));
        }
    }

    fn claim(create: i64, value: &Value) -> KeyValue {
        KeyValue {
            key: format!("n/k/{create}").into_bytes(),
            create_revision: create,
            value: value.to_bytes(),
            lease: create,
            ..KeyValue::default()
        }
    }

    fn shared(name: &str, epoch: Option<u64>) -> Value {
        Value {
            mode: LockMode::Shared,
            epoch,
            label: Some(format!("{name}@host/1")),
            function: Some(format!("shop::{name}")),
            ..Value::plain(100, Stage::holds_now())
        }
    }

    #[test]
    fn the_holder_whose_lease_ends_last_is_described() {
        let waiter = |create| claim(create, &Value::plain(100, Stage::waits_now(None)));
        let queue = Queue::read(&[
            claim(1, &shared("one", None)),
            claim(2, &shared("two", Some(101))),
            claim(3, &shared("three", Some(101))),
            waiter(4),
            waiter(5),
        ]);
        let rest = |lease| {
            Some(Duration::from_secs(
                [2, 9, 4][usize::try_from(lease).unwrap() - 1],
            ))
        };
        let holder = describe(&queue, rest, Some(b"n/k/5"), LockMode::Exclusive);
        assert_eq!(holder.label.as_deref(), Some("two@host/1"));
        assert_eq!(holder.function.as_deref(), Some("shop::two"));
        assert_eq!((holder.fence, holder.others), (101, 2));
        assert_eq!(holder.position, Some(1));
        assert_eq!(holder.ttl, Some(Duration::from_secs(9)));
        assert!(!holder.never_ends);
        // A grant to it has the fence 105.
        assert_eq!(holder.last_fence, 104);
        let holder = describe(&queue, rest, None, LockMode::Exclusive);
        assert_eq!((holder.last_fence, holder.position), (103, None));
        let alone = Queue::read(&[claim(1, &shared("one", None))]);
        let holder = describe(&alone, rest, None, LockMode::Exclusive);
        assert_eq!((holder.fence, holder.others), (101, 0));
    }

    #[test]
    fn a_key_without_a_lease_never_ends() {
        let queue = Queue::read(&[KeyValue {
            lease: 0,
            ..claim(1, &shared("one", None))
        }]);
        let rest = |_| Some(Duration::from_secs(9));
        let holder = describe(&queue, rest, None, LockMode::Exclusive);
        assert_eq!((holder.never_ends, holder.ttl), (true, None));
        assert_eq!(leases(&queue), [0; 0]);
        let free = describe(&Queue::default(), rest, None, LockMode::Exclusive);
        assert_eq!((free.fence, free.last_fence, free.ttl), (0, 0, None));
    }

    #[test]
    fn the_rests_of_up_to_eight_holders_are_asked_for() {
        for (count, expected) in [(1, 1), (8, 8), (9, 0)] {
            let kvs: Vec<_> = (1..=count)
                .map(|it| claim(it, &shared("one", None)))
                .collect();
            assert_eq!(leases(&Queue::read(&kvs)).len(), expected, "{count}");
        }
    }
}
