//! Mistakes in what concerns shared locks and permits.

use super::super::look::Look::{self, Tests};
use super::super::look::{IN_PROCESS, MAKES, RUNTIME, facade};
use super::super::mutant::Mutant;

const SHARING: &str = "dlock-runtime/src/store/redis/protocol/sharing.lua";
const JOIN: &str = "dlock-runtime/src/store/redis/protocol/join.lua";
const LEAVE: &str = "dlock-runtime/src/store/redis/protocol/leave.lua";
const RENEW: &str = "dlock-runtime/src/store/redis/protocol/renew.lua";

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
        "ended-sharer-renews",
        "A lease of a shared lock that has ended is renewed",
        RENEW,
        "if not ends «or tonumber(ends) <= now» then",
        "",
        SERVER,
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
        "shared-token-grows",
        "A permit that is handed over has a greater token",
        "dlock-runtime/src/state/claim.rs",
        "self.last_token.filter(|_| «self.mode.is_exclusive()»)",
        "true",
        STATE,
    ),
    // Many tasks at one key.
    Mutant::new(
        "reconnection-not-told-to-releases",
        "A release that has failed is not told of a reconnection",
        "dlock-runtime/src/state/key_state.rs",
        "let told = self.attempts().filter(|it| «!it.is_holding()»);",
        "!it.is_holding() && it.is_active()",
        MANY,
    ),
];
