//! The holder of a key, for the answer to a request that finds the key busy.

use std::time::Duration;

use dlock_runtime::{LockMode, store::Holder};
use futures_util::future::join_all;

use crate::{
    conn::Conn,
    queue::{Entry, Queue},
};

/// The rests of so many leases are read. Beyond, the answer does without.
const MOST: usize = 8;

/// Describes who holds the key. `own` is the name of the caller's key, if it waits.
pub(crate) async fn of(conn: &Conn, queue: &Queue, own: Option<&[u8]>, mode: LockMode) -> Holder {
    let holders: Vec<_> = queue.holders().collect();
    let rests = if holders.len() <= MOST {
        join_all(holders.iter().map(|it| rest(conn, it))).await
    } else {
        vec![None; holders.len()]
    };
    describe(queue, &holders, &rests, own, mode)
}

/// The rest of a holder's lease. It only informs, so a failure is no answer.
async fn rest(conn: &Conn, holder: &Entry) -> Option<Duration> {
    if holder.lease == 0 {
        return None;
    }
    conn.rest(holder.lease).await.ok()
}

fn describe(
    queue: &Queue,
    holders: &[&Entry],
    rests: &[Option<Duration>],
    own: Option<&[u8]>,
    mode: LockMode,
) -> Holder {
    let newest = holders.iter().map(|it| it.own_fence()).max().unwrap_or(0);
    // A grant to the caller has the fence of its key. All that were granted before it asked are smaller.
    let last_fence = match own.and_then(|own| queue.get(own)) {
        Some(own) => own.own_fence() - 1,
        None => newest,
    };
    let mut described = Holder::new(last_fence);
    let by_rest = || holders.iter().zip(rests);
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
    // A permit is free when the first lease has ended, everything else when the last one has.
    described.ttl = match mode {
        LockMode::Permits(_) => rests.iter().flatten().min().copied(),
        _ if rests.iter().all(Option::is_some) => rests.iter().flatten().max().copied(),
        _ => None,
    };
    described
}
