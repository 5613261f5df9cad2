//! Mistakes in what concerns shared locks and permits.

use super::super::look::Look::{self, Tests};
use super::super::look::{IN_PROCESS, MAKES, RUNTIME, Target, facade};
use super::super::mutant::Mutant;

const SHARING: &str = "dlock-runtime/src/store/redis/protocol/sharing.lua";
const JOIN: &str = "dlock-runtime/src/store/redis/protocol/join.lua";
const LEAVE: &str = "dlock-runtime/src/store/redis/protocol/leave.lua";
const RENEW: &str = "dlock-runtime/src/store/redis/protocol/renew.lua";

const STORE: Target = Target {
    package: "dlock-runtime",
    test: Some("redis_store"),
};

const SERVER: &[Look] = &[
    Tests(facade("conformance"), &["redis::"]),
    Tests(MAKES, &["redis::"]),
];

const STATE: &[Look] = &[
    Tests(RUNTIME, &["state::"]),
    Tests(IN_PROCESS, &["modes::"]),
];

const BESIDE: &str = "dlock-runtime/src/state/beside.rs";
const ATTEMPT: &str = "dlock-runtime/src/state/attempt.rs";

const IN_A_CROWD: &[Look] = &[
    Tests(RUNTIME, &["state::"]),
    Tests(IN_PROCESS, &["beside::"]),
];

const LEASES: &str = "dlock-runtime/src/state/leases.rs";

const MANY: &[Look] = &[Tests(RUNTIME, &["state::tests::many::"])];

const ASKS_BESIDE: &str = "A waiter that would not share the lease of an attempt without one asks beside the one in front";

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "exclusive-beside-sharers",
        "An exclusive holder is let in beside those that share the lock",
        SHARING,
        "if wants == '' then return «state == 'free'» end",
        "state ~= 'exclusive'",
        SERVER,
    ),
    Mutant::new(
        "ended-holders-stay",
        "A holder whose lease has ended keeps its place",
        SHARING,
        "if «ends > now then count = count + 1 end if ends > now or not try('HDEL', lock, all[at])» then",
        "true then count = count + 1 end if true",
        SERVER,
    ),
    Mutant::new(
        "epoch-for-each",
        "Each holder of a shared lock begins an epoch",
        SHARING,
        "local is_first = «state == 'free'»",
        "true",
        SERVER,
    ),
    Mutant::new(
        "joins-without-number",
        "A grant beside other holders has no number of its own",
        SHARING,
        "local number = «count_fence(try)»",
        "state == 'shared' and epoch or count_fence(try)",
        SERVER,
    ),
    Mutant::new(
        "release-grants-one",
        "A release grants one waiter only",
        SHARING,
        "for _ = 1, «64» do",
        "1",
        SERVER,
    ),
    Mutant::new(
        "sharer-jumps-queue",
        "Who wants to share the lock overtakes the waiters",
        JOIN,
        "local is_next, kept_out = «not foremost or foremost == place_of_owner», nil",
        "true",
        SERVER,
    ),
    Mutant::new(
        "sharers-starve-a-notice",
        "An exclusive waiter for a notice does not keep new sharers out",
        JOIN,
        "kept_out = wants ~= '' and «kept_out_until()»",
        "nil",
        SERVER,
    ),
    Mutant::new(
        "told-sharer-loses-place",
        "A waiter that was told that it may share the lock loses its place",
        SHARING,
        "«try('ZADD', living, 'LT', now + told_for, member)» tell_waiter(waiter, '0')",
        "try('ZREM', queue, member)",
        &[Tests(STORE, &["keeps_its_place"])],
    ),
    Mutant::new(
        "permit-in-the-end",
        "A waiter for a permit is told when the last holder ends, and not the first",
        JOIN,
        "tonumber(string.sub(wants, 2)) and «earliest» or latest",
        "latest",
        SERVER,
    ),
    Mutant::new(
        "leaver-takes-all-along",
        "A holder that leaves a shared lock takes the others along",
        LEAVE,
        "if ends and «redis.call('HDEL', lock, owner)» == 1",
        "redis.call('DEL', lock)",
        SERVER,
    ),
    Mutant::new(
        "leaving-waiter-lets-nobody-in",
        "A waiter that leaves lets in nobody behind it",
        LEAVE,
        "if was_held == 1 or «state == 'shared'» then",
        "false",
        SERVER,
    ),
    Mutant::new(
        "ended-sharer-renews",
        "A lease of a shared lock that has ended is renewed",
        RENEW,
        "if not ends «or tonumber(ends) <= now» then",
        "",
        SERVER,
    ),
    Mutant::new(
        "shared-beyond-a-turn",
        "A lease is shared however long ago it came from the store",
        "dlock-runtime/src/state/attempt/sharing.rs",
        "(is_invited || «hold.granted_at.elapsed(now) <= LONGEST_TURN»)",
        "true",
        STATE,
    ),
    Mutant::new(
        "late-call-joins",
        "A call joins a lease, however long before it that was requested",
        "dlock-runtime/src/state/attempt/sharing.rs",
        "&& «next.may_rely_on(hold.known_since)»",
        "true",
        STATE,
    )
    .breaks("A call begins without a request of its own only if it came at most 10 ms after"),
    Mutant::new(
        "loss-told-twice",
        "A task that finds the end of a shared lease by itself is told of it twice",
        "dlock-runtime/src/state/attempt/sharing.rs",
        "users.filter(|user| «user.id != known»)",
        "{ let _ = (user, known); true }",
        STATE,
    ),
    Mutant::new(
        "nobody-is-invited",
        "Waiters may not share a lease that began while they waited",
        "dlock-runtime/src/state/attempt/sharing.rs",
        "let is_invited = «self.invited.is_some_and(|last| next.id <= last)»;",
        "false",
        STATE,
    ),
    Mutant::new(
        "loss-is-the-bearers",
        "Only the task that bears the claim is told of a loss",
        "dlock-runtime/src/state/pool.rs",
        "outcome.also_lost = «attempt.lose_sharers(id, context.now)»,",
        "Vec::new()",
        STATE,
    ),
    Mutant::new(
        "no-waiter-asks-beside",
        "Tasks that wait for permits ask one after the other",
        BESIDE,
        "let may_ask = «self.beside > 0» &&",
        "false && self.beside > 0",
        IN_A_CROWD,
    )
    .breaks(ASKS_BESIDE),
    Mutant::new(
        "all-ask-beside",
        "All tasks that wait for permits ask at once",
        BESIDE,
        "if may_ask { «self.beside -= 1;» }",
        "",
        IN_A_CROWD,
    )
    .breaks(ASKS_BESIDE),
    Mutant::new(
        "grants-do-not-double",
        "A grant lets one more waiter ask, so that they ask one after the other",
        BESIDE,
        "most.min(self.beside + «2»)",
        "1",
        IN_A_CROWD,
    )
    .breaks(ASKS_BESIDE),
    Mutant::new(
        "busy-lets-more-ask",
        "Waiters go on to ask although the key is busy",
        BESIDE,
        "Ok(AcquireOutcome::Busy(_)) | Err(_) => «0»,",
        "self.beside",
        IN_A_CROWD,
    )
    .breaks(ASKS_BESIDE),
    Mutant::new(
        "beside-takes-a-place",
        "An attempt beside the one in front enters the queue of the store",
        ATTEMPT,
        "asks_once || «(self.is_beside && traces_before.is_none())»",
        "{ let _ = (self.is_beside, traces_before); false }",
        IN_A_CROWD,
    )
    .breaks(ASKS_BESIDE),
    Mutant::new(
        "beside-is-put-off-with-traces",
        "An attempt beside the one in front waits behind others although the store may have let it in",
        ATTEMPT,
        "asks_once || (self.is_beside && «traces_before.is_none()»)",
        "{ let _ = traces_before; true }",
        IN_A_CROWD,
    )
    .breaks("One whose request had no answer goes on to ask with a place"),
    Mutant::new(
        "future-sharers-ask",
        "A waiter asks for a lease of its own although it may share the next one",
        BESIDE,
        "&& «!self.may_share_soon(waiter, context)»",
        "true",
        IN_A_CROWD,
    )
    .breaks(ASKS_BESIDE),
    Mutant::new(
        "shared-token-grows",
        "A permit that is handed over has a greater token",
        "dlock-runtime/src/state/claim.rs",
        "self.last_token.filter(|_| «self.mode.is_exclusive()»)",
        "true",
        STATE,
    ),
    // Many tasks at one key.
    Mutant::new(
        "reader-is-searched-for",
        "A task that shares a key is searched for among all that do",
        LEASES,
        "«self.owners.get(&id).copied()»",
        "self.iter().find(|it| it.users().any(|user| user.id == id)).map(|it| it.claim.owner)",
        MANY,
    ),
    Mutant::new(
        "left-reader-is-looked-up",
        "A task that has left is still looked up among those that share a lease",
        LEASES,
        "«self.owners.remove(&id);» } others_stay",
        "",
        STATE,
    ),
    Mutant::new(
        "reconnection-told-to-holders",
        "Each task that holds a key is told of a reconnection",
        "dlock-runtime/src/state/key_state.rs",
        "let told = self.attempts().filter(|it| «!it.is_holding()»);",
        "{ let _ = it; true }",
        MANY,
    ),
    Mutant::new(
        "reconnection-not-told-to-releases",
        "A release that has failed is not told of a reconnection",
        "dlock-runtime/src/state/key_state.rs",
        "let told = self.attempts().filter(|it| «!it.is_holding()»);",
        "!it.is_holding() && it.is_active()",
        MANY,
    ),
    Mutant::new(
        "waiters-beyond-the-bound",
        "More tasks wait for a key than may",
        "dlock-runtime/src/state/key_state.rs",
        "if «self.behind.len() + self.pool.len() + 1 < bound» {",
        "true",
        MANY,
    ),
];
