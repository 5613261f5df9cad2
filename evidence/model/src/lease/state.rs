//! The knowledge of the server and the processes, the messages between them, and the possible actions.

use crate::list::List;

/// The most processes.
pub(super) const MOST: usize = 3;
/// The most attempts of all processes together.
pub(super) const PLACES: usize = 4;
/// How long a waiter counts as alive.
pub(super) const ALIVE: u8 = 2;
/// After this a waiter asks again.
pub(super) const LOOK_AGAIN: u8 = 1;

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) server: Server,
    pub(super) clients: [Client; MOST],
    /// Of each hint that was sent: it may come at any time, and again.
    pub(super) hints: List<Grant, 6>,
    /// Requests on connections that are given up.
    pub(super) late: List<Request, 2>,
    pub(super) resource: Written,
    /// The data of a replica, which becomes the server by a failover.
    pub(super) copy: Option<Copied>,
    /// For how long the lock has been held by a process that is no more, and has asked for nothing;
    /// once it is over, for how long it was.
    pub(super) orphaned: u8,
    /// The waiters with a *busy* answer that still ask, in the order of arrival. The server does not know of this.
    pub(super) arrivals: List<Place, PLACES>,
    pub(super) left: Left,
    pub(super) faults: Faults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) lock: Option<Lock>,
    /// The last fence.
    pub(super) last: u8,
    pub(super) queue: List<Place, PLACES>,
    /// The time in fences, if it is of interest.
    pub(super) clock: u8,
    /// How many leases were granted: the true order of them.
    pub(super) grants: u8,
    /// The greatest fence ever.
    pub(super) greatest: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lock {
    pub(super) grant: Grant,
    pub(super) left: u8,
}

/// The data that survives a failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Copied {
    pub(super) lock: Option<Lock>,
    pub(super) last: u8,
}

/// A lease that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Grant {
    pub(super) owner: Owner,
    pub(super) fence: u8,
    /// Its number among all; no process knows it.
    pub(super) order: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Owner {
    pub(super) client: u8,
    pub(super) round: u8,
}

/// A place of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) owner: Owner,
    pub(super) alive: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) round: u8,
    pub(super) phase: Phase,
    /// Questions that found the lock held; the latest is the last.
    pub(super) refreshes: List<Refresh, 2>,
    /// Requests under way, in order.
    pub(super) wire: List<Request, 2>,
    /// The answer under way.
    pub(super) reply: Option<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Before an attempt.
    Idle,
    /// The question was sent so long ago.
    Asking {
        age: u8,
    },
    /// The last answer, or that there was none, is so old.
    Waiting {
        idle: u8,
    },
    Holding(Holding),
    /// No more attempts.
    Done,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holding {
    pub(super) grant: Grant,
    /// The time until the deadline.
    pub(super) left: u8,
    /// A renewal was sent so long ago.
    pub(super) renewing: Option<u8>,
    /// It began with a hint.
    pub(super) hinted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Refresh {
    pub(super) age: u8,
    pub(super) last: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) owner: Owner,
    pub(super) what: What,
    /// Whether a process waits for the answer.
    pub(super) is_awaited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Acquire,
    Renew { ttl: u8 },
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Granted(Grant),
    Busy { last: u8 },
    Renewed(bool),
}

/// The last write that the resource has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Written {
    pub(super) fence: u8,
    pub(super) order: u8,
    /// It has refused an older one.
    pub(super) has_refused: bool,
}

/// The faults that may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) late: u8,
    pub(super) crashes: u8,
    pub(super) slow: u8,
    pub(super) asleep: u8,
    pub(super) forgets: u8,
    pub(super) rolls_back: u8,
}

/// The broken promises, which the rest of a state does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
pub(super) struct Faults {
    pub(super) fence_fell: bool,
    pub(super) old_write_taken: bool,
    pub(super) new_write_refused: bool,
    pub(super) waiter_passed_over: bool,
    pub(super) lost_came_back: bool,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process asks for the lock.
    Ask(usize),
    /// The server carries out the process's next request.
    Serve(usize),
    /// The answer arrives.
    Hear(usize),
    /// The process waits for the answer no longer.
    TimeOut(usize),
    /// The process hears that it has been made the holder.
    Hint(usize, usize),
    /// The process renews its lease.
    Renew(usize),
    /// The same with another TTL.
    RenewShort(usize),
    /// The process ends its section, or gives up.
    Leave(usize),
    /// The process writes to the resource, however late it is.
    Write(usize),
    /// The process is no more.
    Crash(usize),
    /// The process's next request is left on an old connection.
    Linger(usize),
    /// The process's next request will come once more.
    Repeat(usize),
    /// The server carries out what was left on an old connection.
    ServeLate(usize),
    /// The server starts anew without its data.
    Forget,
    /// A replica has all that the server has.
    Copy,
    /// The replica takes the server's place, without what came after.
    RollBack,
    /// Time passes.
    Tick,
    /// Time passes, and the clock of this process is slow.
    TickSlowly(usize),
    /// Time passes, and the machine of this process sleeps.
    TickAsleep(usize),
}
