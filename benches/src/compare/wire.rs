//! Which of the commands that a server has counted were sent by clients.
//!
//! A server counts what scripts call as well. So each peer has the list of what its scripts call,
//! which it never sends by itself; everything else counts, also what only sets up a connection.

use crate::arguments::Peer;
use crate::stats::Stats;

/// Commands that the scripts of dlock call.
const OF_DLOCK: &[&str] = &[
    "exists", "get", "getex", "set", "del", "pexpire", "pttl", "time", "publish", "zadd", "zrange",
    "zrank", "zrem", "zscore", "hget", "hgetall", "hlen", "hset", "hdel",
];

/// Commands of a script that compares and deletes.
const OF_OTHERS: &[&str] = &["get", "del"];

/// How many commands clients have sent between two reports.
pub(super) fn sent(peer: Peer, before: &Stats, after: &Stats) -> u64 {
    let by_scripts = match peer {
        Peer::Dlock | Peer::Scripts => OF_DLOCK,
        Peer::Raw | Peer::Rslock => OF_OTHERS,
        Peer::Publish | Peer::Memory | Peer::Mutex => &[],
    };
    after.since(before, by_scripts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_clients_send_is_counted() {
        let before = Stats::read("cmdstat_evalsha:calls=2,usec=1\r\n");
        let after = Stats::read(
            "cmdstat_evalsha:calls=12,usec=1\r\ncmdstat_set:calls=5,usec=1\r\n\
             cmdstat_get:calls=9,usec=1\r\ncmdstat_hello:calls=1,usec=1\r\n",
        );
        assert_eq!(sent(Peer::Dlock, &before, &after), 11);
        assert_eq!(
            sent(Peer::Rslock, &before, &after),
            16,
            "it sends SET itself"
        );
    }

    #[test]
    fn the_list_is_what_the_scripts_call() {
        let scripts = [
            include_str!("../../../dlock-runtime/src/store/redis/protocol/acquire.lua"),
            include_str!("../../../dlock-runtime/src/store/redis/protocol/sharing.lua"),
            include_str!("../../../dlock-runtime/src/store/redis/protocol/join.lua"),
            include_str!("../../../dlock-runtime/src/store/redis/protocol/leave.lua"),
            include_str!("../../../dlock-runtime/src/store/redis/protocol/renew.lua"),
            include_str!("../../../dlock-runtime/src/store/redis/protocol/release.lua"),
        ]
        .concat();
        let mut called: Vec<_> = scripts
            .split("call('")
            .chain(scripts.split("try('"))
            .filter_map(|rest| rest.split_once('\''))
            .map(|(name, _)| name)
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_uppercase()))
            .map(str::to_ascii_lowercase)
            .collect();
        called.sort_unstable();
        called.dedup();
        let mut listed = OF_DLOCK.to_vec();
        listed.sort_unstable();
        assert_eq!(called, listed);
    }
}
