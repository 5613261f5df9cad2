//! Mistakes in the scripts that run in the server.

use super::super::look::Look::{self, Tests};
use super::super::look::{MAKES, RUNTIME, Target, facade};
use super::super::mutant::Mutant;

const ACQUIRE: &str = "dlock-runtime/src/store/redis/protocol/acquire.lua";
const RENEW: &str = "dlock-runtime/src/store/redis/protocol/renew.lua";
const RELEASE: &str = "dlock-runtime/src/store/redis/protocol/release.lua";
const RAISE: &str = "dlock-runtime/src/store/redis/protocol/raise.lua";
const DROP: &str = "dlock-runtime/src/store/redis/protocol/drop.lua";
const UNLOCK: &str = "dlock-runtime/src/store/redis/protocol/unlock.lua";
const LOOK_RS: &str = "dlock-runtime/src/store/redis/admin/inspect.rs";

const STORE: Target = Target {
    package: "dlock-runtime",
    test: Some("redis_store"),
};

const SERVER: &[Look] = &[
    Tests(facade("conformance"), &["redis::"]),
    Tests(facade("servers"), &["fences::"]),
    Tests(STORE, &[]),
    Tests(RUNTIME, &["redis"]),
    Tests(
        facade("servers"),
        &["contention::dead_parties", "contention::fairness"],
    ),
    Tests(facade("failover"), &["quorum::"]),
    Tests(MAKES, &["redis::"]),
];

const MOVED: &[Look] = &[
    Tests(facade("failover"), &["cluster::migration"]),
    Tests(facade("failover"), &["cluster::"]),
];

const OPERATOR: &[Look] = &[Tests(facade("servers"), &["admin::"])];

pub(super) const ALL: &[Mutant] = &[
    // acquire
    Mutant::new(
        "own-ttl-goes-on",
        "Whoever asks again for its own lock does not get its TTL anew",
        ACQUIRE,
        "if holder_label == label then «redis.call('PEXPIRE', lock, ttl)»",
        "",
        SERVER,
    )
    .breaks("**acquire** and **renew** by the owner start its TTL anew"),
    Mutant::new(
        "own-fence-anew",
        "Whoever asks again for its own lock is told another fence",
        ACQUIRE,
        "return «tonumber(held_fence)» end",
        "tonumber(held_fence) + 1",
        SERVER,
    ),
    Mutant::new(
        "foreign-counter-taken",
        "A counter of fences that is no number of dlock is counted on from",
        ACQUIRE,
        "if «not last or last >= 2 ^ 52 or string.find(text, '%D')» then",
        "not last",
        SERVER,
    ),
    Mutant::new(
        "proposal-ignored",
        "The fence that a quorum proposes is ignored",
        ACQUIRE,
        "local next_fence = «tonumber(ARGV[5]) or» (time[1]",
        "",
        SERVER,
    ),
    Mutant::new(
        "queue-jumped",
        "A free lock goes to who asks, and not to the first waiter",
        ACQUIRE,
        "if «first and first ~= owner and string.sub(first, -1) ~= '!'» then",
        "false",
        SERVER,
    )
    .breaks("If the lock is free but others wait, **acquire** makes the first living waiter the holder for 3 s and sends a hint"),
    Mutant::new(
        "grant-for-long",
        "A waiter is made the holder for ten times as long",
        ACQUIRE,
        "local grant_ttl = «3000»",
        "30000",
        SERVER,
    )
    .breaks("**acquire** makes the first living waiter the holder for 3 s and sends a hint"),
    // renew
    Mutant::new(
        "renewal-writes-no-label",
        "The first renewal of a lease that was handed on writes no label",
        RENEW,
        "if «label and string.sub(value, -#label - 1) ~= ' ' .. label» then",
        "false",
        SERVER,
    )
    .breaks("**renew** writes the label of a lease that was granted"),
    Mutant::new(
        "renewal-keeps-ttl",
        "A renewal that writes the label does not start the TTL anew",
        RENEW,
        "label«, 'PX', ttl»)",
        ", 'KEEPTTL'",
        SERVER,
    ),
    Mutant::new(
        "renewal-of-prefix",
        "A renewal takes an owner for its own whose id begins with it",
        RENEW,
        "«string.sub(value, 1, #owner + 1) ~= owner .. ' '» then",
        "string.sub(value, 1, #owner) ~= owner",
        SERVER,
    ),
    Mutant::new(
        "renewal-reads-replica",
        "A renewal may be answered from data that is old",
        RENEW,
        "redis.call(«'GETEX'», lock)",
        "'GET'",
        &[
            Tests(facade("failover"), &["sentinel::"]),
            Tests(facade("failover"), &["cluster::"]),
            Tests(STORE, &[]),
        ],
    ),
    // release
    Mutant::new(
        "queue-place-not-left",
        "A release of who only waits does not leave the queue",
        RELEASE,
        "~= owner .. ' ' then «redis.call('ZREM', queue, owner, owner .. '!')»",
        "",
        SERVER,
    )
    .breaks("Any other caller leaves the queue"),
    Mutant::new(
        "waiters-not-looked-for",
        "A release looks for no waiters",
        RELEASE,
        "if «redis.pcall('EXISTS', queue) == 0» then",
        "true",
        SERVER,
    )
    .breaks("**release** by the owner grants the lock to the first living waiter, or deletes the key"),
    Mutant::new(
        "granted-to-the-dead",
        "A release makes a waiter the holder that has died",
        RELEASE,
        "if until_ms and «tonumber(until_ms) >= now» and not is_owner then",
        "true",
        SERVER,
    )
    .breaks("A waiter that died is passed over when its alive time is up"),
    Mutant::new(
        "release-fence-by-clock",
        "A grant at a release may have a smaller fence than the last one",
        RELEASE,
        "«math.max(last + 1, floor)») return try",
        "floor",
        SERVER,
    ),
    Mutant::new(
        "told-waiter-loses-place",
        "A waiter that was told loses its place",
        RELEASE,
        "redis.call('DEL', lock) «try('ZADD', living, 'LT', now + told_for, first)»",
        "try('ZREM', queue, first)",
        SERVER,
    )
    .breaks("It keeps its place, but for one second at the most unless it asks"),
    // raise
    Mutant::new(
        "raise-of-anybody",
        "A raise raises the fence of whoever has the lock",
        RAISE,
        "if «holder ~= owner or» held_fence",
        "",
        SERVER,
    )
    .breaks("Confirmed where the lock is gone or was acquired anew"),
    Mutant::new(
        "raise-of-another-grant",
        "A raise raises the fence of a lock that was got anew",
        RAISE,
        "if holder ~= owner« or held_fence ~= from and held_fence ~= fence» then",
        "",
        SERVER,
    )
    .breaks("Confirmed where the lock is gone or was acquired anew"),
    Mutant::new(
        "raise-not-repeated",
        "A raise that is repeated finds another fence",
        RAISE,
        "held_fence ~= from« and held_fence ~= fence» then",
        "",
        SERVER,
    )
    .breaks("Each script is idempotent for its owner"),
    Mutant::new(
        "raise-leaves-the-lock",
        "A raise does not raise the fence of the lock",
        RAISE,
        "if «tonumber(held_fence) < tonumber(fence)» then",
        "false",
        SERVER,
    )
    .breaks("the fence of the owner's lock and that of the slot are not less than the one proposed"),
    Mutant::new(
        "raise-ends-ttl",
        "A raise lets a lock stay for ever",
        RAISE,
        "label«, 'KEEPTTL'»)",
        "",
        SERVER,
    ),
    // drop
    Mutant::new(
        "drop-of-anybody",
        "A release while a slot moves deletes the lock of whoever has it",
        DROP,
        "if «not value or string.sub(value, 1, #owner + 1) ~= owner .. ' '» then",
        "not value",
        MOVED,
    )
    .breaks("if the owner still holds it"),
    Mutant::new(
        "drop-does-nothing",
        "A release while a slot moves leaves the lock",
        DROP,
        "end «redis.call('DEL', lock)» return 1",
        "",
        MOVED,
    )
    .breaks("**drop** deletes the owner's lock and sends no hint"),
    // unlock and look
    Mutant::new(
        "unlock-by-owner-alone",
        "An operator takes away a later lease of the same owner than the one that was seen",
        UNLOCK,
        "«string.sub(value, 1, #seen) ~= seen»",
        "string.match(value, '^%S+') ~= string.match(seen, '^%S+')",
        OPERATOR,
    )
    .breaks("**unlock** removes a lock only with the owner and the fence that were seen"),
    Mutant::new(
        "unlock-of-any-value",
        "An operator takes away another client's value that has changed since",
        UNLOCK,
        "or «not seen and redis.sha1hex(value) ~= ARGV[3]» then",
        "false",
        OPERATOR,
    )
    .breaks("or a third-party value by its SHA-1"),
    Mutant::new(
        "unlock-raises-to-the-clock",
        "An operator may set the fence of the slot back",
        UNLOCK,
        "«math.max(last + 1, floor)»",
        "floor",
        OPERATOR,
    ),
    Mutant::new(
        "unlock-tells-nobody",
        "A holder whose lock was taken away is not told",
        LOOK_RS,
        "«self.store.servers.execute(&command).await.ok();»",
        "",
        OPERATOR,
    )
    .breaks("notifies the old holder by `owner 0 K`"),
];
