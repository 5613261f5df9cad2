//! A hand-off: from the release in one process until the body begins in another one that waits.
//!
//! The aim is about a commit with NOTIFY, which is no lock: it writes one row and sends one message. In a trace of one
//! hand-off, the client that releases takes 40 µs before it sends (by hand 15), the server 165 until it sends the message
//! (75 for a lock by hand with a queue, see `queued.rs`), and the client that gets it 30 (by hand 8). The rest is the same.
//! The 165 are 30 to enter the function, 35 for the mutex, 45 to remove the lease without waiting for a transaction, 15 to
//! find the first living waiter, 25 for the grant, and 15 before the commit. All of it is code that has left the caches
//! since it last ran: a release right behind another one takes half the time.

use super::Options;
use super::turns::{ADVISORY, DLOCK, NOTIFY, QUEUED};
use crate::Failure;
use crate::apart::disk::Disk;
use crate::apart::pair::{Pair, take_turns};
use crate::apart::report::Report;

/// The pace of a way that asks again after up to 63 ms.
const SLOW: [u64; 2] = [155_000, 150_000];

/// The turns of a process in a round at that pace.
const SLOW_TURNS: u32 = 2;

pub(super) async fn measure(
    options: &Options,
    url: &str,
    disk: Disk,
    report: &mut Report,
) -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let mut pairs = Vec::new();
    for way in [DLOCK, NOTIFY, QUEUED, ADVISORY] {
        let words = ["postgres", "--child", way, url];
        pairs.push(Pair::start(&own, &words, options.turns, disk).await?);
    }
    if let Some(peer) = &options.peer {
        pairs.push(Pair::start_at(peer, &[url], SLOW_TURNS, SLOW).await?);
    }
    take_turns(&mut pairs, options.rounds).await?;
    let rounds: Vec<_> = pairs.iter().map(|it| &it.rounds).collect();
    let [dlock, notify, queued, advisory, peer @ ..] = &rounds[..] else {
        return Err("a way is missing".into());
    };
    report.time(format!("hand-off by dlock, {disk}"), dlock);
    report.time(
        format!("commit with NOTIFY until the message is there, {disk}"),
        notify,
    );
    report.time(
        format!("hand-off of a lock by hand with a queue, {disk}"),
        queued,
    );
    report.time(
        format!("hand-off of an advisory lock, a connection for each waiter, {disk}"),
        advisory,
    );
    report.ratio(
        format!("hand-off / commit with NOTIFY, {disk}"),
        dlock.ratio(notify),
        Some(1.3),
    );
    report.ratio(
        format!("hand-off / of a lock by hand with a queue, {disk}"),
        dlock.ratio(queued),
        None,
    );
    report.ratio(
        format!("hand-off / that of an advisory lock, {disk}"),
        dlock.ratio(advisory),
        None,
    );
    match peer.first() {
        Some(peer) => {
            report.time(format!("hand-off by the other library, {disk}"), peer);
            report.ratio(
                format!("hand-off / by the other library, {disk}"),
                dlock.ratio(peer),
                Some(0.05),
            );
        }
        None => println!("the aim about another library needs `--peer`"),
    }
    Ok(())
}
