//! A hand-off: from the release in one process until the body begins in another one that waits.
//!
//! The aim is about a commit with NOTIFY, which is no lock: it writes one row and sends one message. Beyond it, two thirds of
//! the time of dlock are spent in the function `release`, and a third in the clients, which exchange the same messages and
//! change no thread. All of them run code that has left the caches since it last ran: a release that follows another one
//! takes half the time of one that comes 5 ms later, and with fsync and a longer pause, as here, the ratio is the same.
//! Of the server's instructions for a release with a grant, an eighth is the call, a twelfth the mutex of the
//! key, a quarter the removal of the lease without waiting for a transaction, a tenth the search for the first living
//! waiter, and two fifths the grant, of which a third is the message with its proof. Starting the statements, whose plans
//! are kept, takes a third of it all, and finding rows by their place instead of their key would save a twentieth. A lock
//! by hand with a queue takes two fifths of these instructions, and a commit with NOTIFY a fifth: `queued.rs` has the
//! first, which says what a queue alone costs.

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
