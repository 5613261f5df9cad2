//! The row locks of a lock in `PostgreSQL`: requests, and the transactions of users that are fenced.
//!
//! There is one database and one key. What is modelled is what the server does for a statement: which rows
//! it sees, which it locks and how strongly, and for whom it waits. SQL is not.
//!
//! | table | a row is | its lock means |
//! |---|---|---|
//! | `lock` | the key, with its last fence | the *mutex* of the key: acquire, release, unlock and sweep take it first, `FOR NO KEY UPDATE` |
//! | `holder` | a lease: owner, fence, end | see below |
//! | `waiter` | a place in the queue, with the fence for it if no greater one is given before | none: places are read and written under the mutex |
//!
//! | who | locks a row of `holder` | if the row is locked otherwise |
//! |---|---|---|
//! | a take-over deletes leases that have ended | `FOR UPDATE` | the lease is left out, and still keeps others out |
//! | acquire extends the lease of its own owner | `FOR NO KEY UPDATE` | refused: nothing is done, and it is repeated |
//! | release deletes the lease of its owner | `FOR UPDATE` | refused, and repeated |
//! | renew moves the end | `FOR NO KEY UPDATE`, without the mutex | waits |
//! | `fence`, in the user's transaction | `FOR KEY SHARE` until its end | waits, for a request alone |
//! | `lock_in` deletes the short lease that it acquired, in the user's transaction | `FOR UPDATE` until its end | waits, for a request alone |
//!
//! So a transaction that is fenced keeps the key beyond the end of its lease: `fence` looks at no time.
//!
//! A request is sent, gets its locks and decides, and commits, in three steps; anything happens between. It is
//! answered with its commit. Requests that were given up come later or never. One time of all is counted in
//! ticks, and every moment of the process is late: it may fence a lease that ended long ago. Clocks that
//! differ, and messages of grants, are left to [`lease`](crate::lease); a waiter polls here. Left out as well is a waiter that asks
//! again in another mode: each attempt of dlock has an owner of its own, and one mode.
//!
//! A crash of the server empties the queue, which is not logged, and undoes the last commits that did not wait for the disk.

mod acquire;
mod checks;
mod locks;
mod operator;
mod process;
mod properties;
mod release;
mod renew;
mod state;
mod steps;
mod transaction;

pub use self::{
    checks::checks,
    state::{Action, Actor, State},
};

/// The protocol without the rules that are left out, within bounds.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The rules that are left out.
    pub without: &'static [Rule],
    /// How much may happen.
    pub bounds: Bounds,
}

/// How much may happen.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
pub struct Bounds {
    /// The wish of each process; there are at most 3 processes.
    pub roles: &'static [Role],
    /// How many attempts each process makes, at most 2.
    pub rounds: u8,
    /// How many leases are granted.
    pub grants: u8,
    /// Whether leases are renewed.
    pub renews: Renews,
    /// Whether leases are fenced in transactions of users.
    pub fences: bool,
    /// How many requests are given up and come later.
    pub late: u8,
    /// Whether transactions see what there was at their begin: REPEATABLE READ.
    pub snapshots: bool,
    /// Whether transactions return to a savepoint before the fence.
    pub savepoints: bool,
    /// How many requests are rolled back before their commit.
    pub aborts: u8,
    /// How often the server restarts, which rolls back all of them and the transactions of users.
    pub restarts: u8,
    /// How often the server crashes, which also undoes the last commits that did not wait for its disk.
    pub crashes: u8,
    /// How often a standby takes over that does not have the last commits; not beside crashes.
    pub failovers: u8,
    /// How many waiters do not repeat their request in time.
    pub deaths: u8,
    /// Whether an operator removes leases.
    pub unlocks: bool,
    /// The last tick of the clock in fences. Without one, time has no end, and fences only count.
    ///
    /// The row of the key is swept, and a standby takes over, only once the clock is beyond the fences.
    pub clock: Option<u8>,
    /// Whether the row of a key that nobody uses is removed.
    pub sweeps: bool,
}

/// The wish of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Leases that exclude all others.
    Exclusive,
    /// Leases that exclude exclusive ones.
    Shared,
    /// A lock that ends with a transaction: `lock_in`.
    InTransaction,
}

/// Whether leases are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renews {
    /// They are not.
    Never,
    /// Each by a request of its own.
    Each,
    /// All that are held, in one statement.
    Together,
}

/// A rule that something depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The lock of the key's row excludes others of its kind. `FOR KEY SHARE` does not.
    MutexExcludes,
    /// The key's row is locked as strongly as will be needed, at once, and not `FOR SHARE` first.
    LockedAtOnce,
    /// The holders are read by a statement that begins when the mutex is there.
    SnapshotAfterTheLock,
    /// Acquire reads the clock when the mutex is there.
    ClockAfterTheLock,
    /// A renewal reads the clock, `clock_timestamp()`, and not the begin of its transaction, `now()`.
    RenewalReadsTheClock,
    /// A take-over does not wait for a lease that ended and is locked: `SKIP LOCKED`.
    TakeOverSkipsLocked,
    /// A lease that ended and is locked keeps others out.
    LockedCountsAsHeld,
    /// A take-over deletes, which `FOR KEY SHARE` keeps out. An `UPDATE` of the owner in place is not kept out.
    TakeOverDeletes,
    /// That a lease has ended is seen under the lock that deletes it.
    EndIsSeenUnderTheLock,
    /// The owner's repeated acquire does not wait for its own lease, if that is locked.
    RepeatSkipsLocked,
    /// A fence locks the row that it has found.
    FenceLocks,
    /// It finds the row by owner and fence.
    FenceCompares,
    /// A renewal inserts no row that was removed.
    RenewalRevivesNothing,
    /// A renewal is refused if the lease has ended, though its row is there.
    RenewalRefusesTheEnded,
    /// A renewal of several leases locks them in one order.
    RowsInOneOrder,
    /// A release deletes the row of its own owner.
    ReleaseCompares,
    /// A release takes the mutex.
    ReleaseTakesTheMutex,
    /// A release does not wait for a row that is locked: `NOWAIT`.
    ReleaseWaitsForNobody,
    /// A busy acquire takes its place in the queue under the mutex.
    QueuesUnderTheMutex,
    /// A request that looks for the next waiter removes those that did not repeat their request in time.
    DeadWaitersAreRemoved,
    /// A commit that grants a lease, or extends it, waits for the disk.
    GrantsAreDurable,
    /// And so does one that renews leases.
    RenewalsAreDurable,
    /// `lock_in` deletes its lease, and does not only lock it `FOR UPDATE`.
    LockInDeletes,
    /// `lock_in` is refused if its lease is not there any more.
    LockInFindsItsLease,
    /// Each `lock_in` has an owner of its own.
    LockInHasItsOwner,
    /// The lease of a `lock_in` is not renewed.
    LockInIsNotRenewed,
    /// A fence is greater than the last of its key.
    FenceExceedsTheLast,
    /// And not below the clock.
    FenceFollowsTheClock,
    /// A fence from when its waiter came is given only if no greater one was given since.
    NumberExceedsTheLast,
    /// A standby that takes over has no waiters.
    QueueEndsWithItsServer,
    /// The row of a key is swept only when the clock is beyond its last fence.
    SweptLater,
    /// A request that has waited for a row which was swept then starts over.
    StartsOverWhenSwept,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 32] = [
        Self::MutexExcludes,
        Self::LockedAtOnce,
        Self::SnapshotAfterTheLock,
        Self::ClockAfterTheLock,
        Self::RenewalReadsTheClock,
        Self::TakeOverSkipsLocked,
        Self::LockedCountsAsHeld,
        Self::TakeOverDeletes,
        Self::EndIsSeenUnderTheLock,
        Self::RepeatSkipsLocked,
        Self::FenceLocks,
        Self::FenceCompares,
        Self::RenewalRevivesNothing,
        Self::RenewalRefusesTheEnded,
        Self::RowsInOneOrder,
        Self::ReleaseCompares,
        Self::ReleaseTakesTheMutex,
        Self::ReleaseWaitsForNobody,
        Self::QueuesUnderTheMutex,
        Self::DeadWaitersAreRemoved,
        Self::GrantsAreDurable,
        Self::RenewalsAreDurable,
        Self::LockInDeletes,
        Self::LockInFindsItsLease,
        Self::LockInHasItsOwner,
        Self::LockInIsNotRenewed,
        Self::FenceExceedsTheLast,
        Self::FenceFollowsTheClock,
        Self::NumberExceedsTheLast,
        Self::QueueEndsWithItsServer,
        Self::SweptLater,
        Self::StartsOverWhenSwept,
    ];
}

impl Rows {
    fn keeps(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }
}
