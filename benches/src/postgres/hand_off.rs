//! A hand-off: from the release in one process until the body begins in another one that waits.
//!
//! The aim is about a commit with NOTIFY, which is no lock: it writes one row and sends one message. Beyond it, the time
//! of dlock is spent in the function `release`, and hardly any in the clients, which exchange the same messages and change
//! no thread. Of the server's instructions for a release with a grant, an eighth is the call, a twelfth the mutex of the
//! key, a quarter the removal of the lease without waiting for a transaction, a tenth the search for the first living
//! waiter, and two fifths the grant, of which a third is the message with its proof. Starting the statements, whose plans
//! are kept, takes a third of it all, and finding rows by their place instead of their key would save a twentieth. A lock
//! by hand with a queue takes two fifths of these instructions, and a commit with NOTIFY a fifth: `queued.rs` has the
//! first, which says what a queue alone costs.

use super::Options;
use super::turns::{ADVISORY, DLOCK, NOTIFY, QUEUED};
use crate::Failure;
use crate::apart::pair::{Pair, QUICK, take_turns};
use crate::apart::report::Report;

/// The pace of a way that asks again after up to 63 ms.
const SLOW: [u64; 2] = [155_000, 150_000];

/// The turns of a process in a round at that pace.
const SLOW_TURNS: u32 = 2;

pub(super) async fn measure(
    options: &Options,
    url: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let mut pairs = Vec::new();
    for way in [DLOCK, NOTIFY, QUEUED, ADVISORY] {
        let words = ["postgres", "--child", way, url];
        pairs.push(Pair::start(&own, &words, options.turns, QUICK).await?);
    }
    if let Some(peer) = &options.peer {
        pairs.push(Pair::start(peer, &[url], SLOW_TURNS, SLOW).await?);
    }
    take_turns(&mut pairs, options.rounds).await?;
    let rounds: Vec<_> = pairs.iter().map(|it| &it.rounds).collect();
    let [dlock, notify, queued, advisory, peer @ ..] = &rounds[..] else {
        return Err("a way is missing".into());
    };
    report.time("hand-off by dlock", dlock);
    report.time("commit with NOTIFY until the message is there", notify);
    report.time("hand-off of a lock by hand with a queue", queued);
    report.time(
        "hand-off of an advisory lock, a connection for each waiter",
        advisory,
    );
    report.ratio(
        "hand-off / commit with NOTIFY",
        dlock.ratio(notify),
        Some(1.3),
    );
    report.ratio(
        "hand-off / of a lock by hand with a queue",
        dlock.ratio(queued),
        None,
    );
    report.ratio(
        "hand-off / that of an advisory lock",
        dlock.ratio(advisory),
        None,
    );
    match peer.first() {
        Some(peer) => {
            report.time("hand-off by the other library", peer);
            report.ratio(
                "hand-off / by the other library",
                dlock.ratio(peer),
                Some(0.05),
            );
        }
        None => println!("the aim about another library needs `--peer`"),
    }
    Ok(())
}
