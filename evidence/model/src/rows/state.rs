//! The tables, the requests and transactions with their locks, the processes, and the possible actions.

use crate::list::List;

/// The most processes.
pub(super) const MOST: usize = 3;

/// The most attempts of a process.
const MOST_ROUNDS: usize = 2;

/// The ticks of a lease.
pub(super) const TTL: u8 = 2;

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// As committed.
    pub(super) tables: Tables,
    /// The part of them that a crash, or a failover, leaves: what the disk, or the standby, has.
    pub(super) kept: Option<Tables>,
    pub(super) processes: [Process; MOST],
    pub(super) operator: Option<Request>,
    /// Ticks since the start, if they are counted.
    pub(super) clock: u8,
    pub(super) left: Left,
    /// Counted for the properties: no rule reads them.
    pub(super) grants: u8,
    pub(super) greatest: u8,
    /// A transaction of a user has freed the key since a request last looked, and woken no waiter.
    pub(super) was_freed_silently: bool,
    pub(super) faults: Faults,
}

/// The owner of a lease: an attempt of a process, or the empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Owner(u8);

impl Owner {
    /// An owner that several share.
    pub(super) const EMPTY: Self = Self(7);

    pub(super) fn new(process: usize, round: u8) -> Self {
        let first = u8::try_from(process * MOST_ROUNDS).expect("there are few");
        Self(first + round)
    }

    pub(super) fn numbered(number: u8) -> Self {
        Self(number)
    }

    pub(super) fn number(self) -> u8 {
        self.0
    }

    pub(super) fn process(self) -> Option<usize> {
        let process = usize::from(self.0) / MOST_ROUNDS;
        (process < MOST).then_some(process)
    }
}

/// Owners, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Owners(u8);

impl Owners {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn has(self, owner: Owner) -> bool {
        self.0 & (1 << owner.0) != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn with(self, owner: Owner) -> Self {
        Self(self.0 | 1 << owner.0)
    }

    pub(super) fn without(self, owner: Owner) -> Self {
        Self(self.0 & !(1 << owner.0))
    }

    pub(super) fn except(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(super) fn and(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    pub(super) fn iter(self) -> impl DoubleEndedIterator<Item = Owner> {
        (0..8).map(Owner).filter(move |it| self.has(*it))
    }
}

impl FromIterator<Owner> for Owners {
    fn from_iter<I: IntoIterator<Item = Owner>>(owners: I) -> Self {
        owners.into_iter().fold(Self::NONE, Self::with)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tables {
    /// By owner.
    pub(super) holders: List<Holder, 6>,
    /// By place.
    pub(super) waiters: List<Owner, 6>,
    /// The waiters that did not repeat their request in time.
    pub(super) dead: Owners,
    /// The fence that each exclusive waiter gets if no greater one is given before, by owner; 0 without one.
    pub(super) numbers: [u8; 8],
    /// The last fence in the row of the key; 0 without a row.
    pub(super) last: u8,
    /// The greatest fence of the user's transactions that have committed.
    pub(super) committed: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Holder {
    pub(super) owner: Owner,
    pub(super) fence: u8,
    /// The ticks until its end.
    pub(super) left: u8,
}

/// The most requests of a process at a time.
pub(super) const SLOTS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) round: u8,
    pub(super) phase: Phase,
    /// An acquire, a renewal, a release, and one that was given up.
    pub(super) requests: [Option<Request>; SLOTS],
    pub(super) transaction: Option<Transaction>,
}

pub(super) const ACQUIRE: usize = 0;
pub(super) const RENEW: usize = 1;
pub(super) const RELEASE: usize = 2;
pub(super) const LATE: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Asking,
    Waiting,
    Holding {
        fence: u8,
        /// For how many ticks the process trusts the lease.
        trust: u8,
    },
    Done,
}

/// A request, and the transaction that carries it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) what: What,
    pub(super) owner: Owner,
    pub(super) step: Step,
    /// Ticks since it was sent.
    pub(super) age: u8,
    /// Ticks since it read the clock.
    pub(super) since: u8,
    /// The leases it has locked: to delete them, or to renew them.
    pub(super) locked: Owners,
    /// The leases it will insert, or has yet to renew.
    pub(super) meant: Owners,
    /// The waiters it will remove: they are dead.
    pub(super) dead: Owners,
    /// The rows that it has seen too early, where a rule is missing.
    pub(super) seen: Owners,
    /// Whether it goes on without the mutex, where a rule is missing.
    pub(super) has_no_mutex: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Acquire,
    Renew,
    Release,
    Unlock,
    Sweep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// The server does not have it yet, or it waits for its first lock.
    Sent,
    /// It has locked the key's row `FOR SHARE`, and will need more.
    Sharing,
    /// It has locks, and needs another one.
    Locking,
    /// It has all its locks; only its commit is missing.
    Decided(Outcome),
    /// It has committed, and will take its place in the queue.
    Queueing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Outcome {
    Granted,
    /// The owner's lease is there, and begins anew.
    Extended,
    Busy,
    /// A renewal or a removal.
    Done,
}

/// A transaction of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Transaction {
    /// The lease that it is to be fenced with, once it is known.
    pub(super) token: Option<(Owner, u8)>,
    pub(super) is: Is,
    /// Under REPEATABLE READ, once there was a statement.
    pub(super) snapshot: Option<Snapshot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Is {
    Open,
    /// The user believes that the transaction keeps the key.
    Fenced {
        /// The row is locked indeed.
        is_locked: bool,
    },
    /// The lease is not there.
    Refused,
    /// 40001: the lease was removed after the snapshot.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Snapshot {
    /// The fence of the process's lease, if it was there.
    pub(super) sees: Option<u8>,
    /// Whether another transaction that was fenced has committed since.
    pub(super) is_old: bool,
}

/// How often a fault may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) late: u8,
    pub(super) aborts: u8,
    pub(super) restarts: u8,
    pub(super) crashes: u8,
    pub(super) failovers: u8,
    pub(super) deaths: u8,
}

/// The broken promises that the rest of a state does not show.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a promise of its own"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    pub(super) fence_fell: bool,
    pub(super) out_of_order: bool,
    pub(super) overwrote_unseen: bool,
    pub(super) left_waiting: bool,
    pub(super) left_over: bool,
}

/// A request or a transaction that has locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A request, by its process and its place there.
    Request(usize, usize),
    /// The operator's request.
    Operator,
    /// The transaction of a process's user.
    Transaction(usize),
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process asks for the lock, or again.
    Ask(usize),
    /// The process renews its lease.
    Renew(usize),
    /// The process gives up, ends its section, or has lost its lease.
    Leave(usize),
    /// The process gives up a request, by its place, but not its attempt.
    GiveUp(usize, usize),
    /// The server carries out the next step of a request.
    Serve(Actor),
    /// A transaction begins.
    Begin(usize),
    /// It is fenced, or adopts the lease of its `lock_in`.
    Fence(usize),
    /// It returns to the savepoint before its fence.
    RollBackTo(usize),
    /// It commits.
    Commit(usize),
    /// It is rolled back.
    RollBack(usize),
    /// Time passes.
    Tick,
    /// A request is rolled back before its commit.
    Abort(Actor),
    /// The server restarts.
    Restart,
    /// The server crashes.
    Crash,
    /// This owner's place in the queue ends: its process has died, or is late.
    Die(u8),
    /// The disk, or the standby, gets all that is committed.
    Keep,
    /// The standby takes over.
    FailOver,
    /// An operator removes the lease of this owner.
    Unlock(u8),
    /// The row of the key is swept.
    Sweep,
}

impl State {
    pub(super) fn request(&self, of: Actor) -> Option<Request> {
        match of {
            Actor::Request(at, slot) => self.processes[at].requests[slot],
            Actor::Operator => self.operator,
            Actor::Transaction(_) => None,
        }
    }

    pub(super) fn set(&mut self, of: Actor, request: Option<Request>) {
        match of {
            Actor::Request(at, slot) => self.processes[at].requests[slot] = request,
            Actor::Operator => self.operator = request,
            Actor::Transaction(_) => {}
        }
    }

    /// All requests under way.
    pub(super) fn requests(&self) -> impl Iterator<Item = (Actor, Request)> + '_ {
        let of_processes = self.processes.iter().enumerate().flat_map(|(at, process)| {
            let slots = process.requests.iter().enumerate();
            slots.filter_map(move |(slot, it)| it.map(|it| (Actor::Request(at, slot), it)))
        });
        let of_the_operator = self.operator.map(|it| (Actor::Operator, it));
        of_processes.chain(of_the_operator)
    }

    pub(super) fn requests_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        let processes = self.processes.iter_mut();
        let of_processes = processes.flat_map(|it| it.requests.iter_mut());
        of_processes.flatten().chain(self.operator.as_mut())
    }
}

impl Tables {
    pub(super) const EMPTY: Self = Self {
        holders: List::new(),
        waiters: List::new(),
        dead: Owners::NONE,
        numbers: [0; 8],
        last: 0,
        committed: 0,
    };

    pub(super) fn lease(&self, owner: Owner) -> Option<Holder> {
        self.holders.iter().find(|it| it.owner == owner)
    }

    pub(super) fn lease_mut(&mut self, owner: Owner) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|it| it.owner == owner)
    }

    /// The owners of all rows, whether ended or not.
    pub(super) fn owners(&self) -> Owners {
        self.holders.iter().map(|it| it.owner).collect()
    }

    pub(super) fn number_mut(&mut self, owner: Owner) -> &mut u8 {
        &mut self.numbers[usize::from(owner.number())]
    }

    /// The waiters that have not died, by place.
    pub(super) fn living(&self) -> impl Iterator<Item = Owner> + '_ {
        self.waiters.iter().filter(|it| !self.dead.has(*it))
    }

    pub(super) fn remove_waiters(&mut self, owners: Owners) {
        self.waiters.retain(|it| !owners.has(*it));
        self.dead = self.dead.except(owners);
        for owner in owners.iter() {
            *self.number_mut(owner) = 0;
        }
    }

    /// A queue is not written to the log: it ends with its server.
    pub(super) fn lose_the_queue(&mut self) {
        self.waiters = List::new();
        self.dead = Owners::NONE;
        self.numbers = [0; 8];
    }

    pub(super) fn pass(&mut self) {
        for holder in self.holders.iter_mut() {
            holder.left = holder.left.saturating_sub(1);
        }
    }
}

impl Request {
    pub(super) fn new(what: What, owner: Owner) -> Self {
        Self {
            what,
            owner,
            step: Step::Sent,
            age: 0,
            since: 0,
            locked: Owners::NONE,
            meant: Owners::NONE,
            dead: Owners::NONE,
            seen: Owners::NONE,
            has_no_mutex: false,
        }
    }

    /// The ticks until the end of a lease that begins when the clock was read.
    pub(super) fn left(&self) -> u8 {
        TTL.saturating_sub(self.since)
    }

    /// For how long its process trusts what it is answered now.
    pub(super) fn trust(&self) -> u8 {
        TTL.saturating_sub(self.age)
    }
}

impl Transaction {
    pub(super) fn is_fenced(self) -> bool {
        matches!(self.is, Is::Fenced { .. })
    }

    /// The lease whose row it has locked.
    pub(super) fn locked(self) -> Option<Owner> {
        let is_locked = self.is == Is::Fenced { is_locked: true };
        let (owner, _) = self.token.filter(|_| is_locked)?;
        Some(owner)
    }
}
