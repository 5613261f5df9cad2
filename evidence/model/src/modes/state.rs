//! The knowledge of the store and the processes, the messages between them, and the possible actions.

use crate::list::List;

/// The most processes.
pub(super) const MOST: usize = 4;

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) server: Server,
    pub(super) clients: [Client; MOST],
    /// In no order.
    pub(super) hints: List<Hint, 6>,
    pub(super) resource: Resource,
    pub(super) replica: Replica,
    pub(super) faults: Faults,
}

/// An earlier state of the store, to which it may return once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Replica {
    UpToDate,
    Behind(Server),
    TookOver,
}

/// The mode of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// With any number of others.
    Shared,
    /// With others, if there are fewer than so many.
    Permits(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// The key of the lock: its leases, by owner.
    pub(super) leases: List<Lease, MOST>,
    /// The epoch in that key; 0 for none.
    pub(super) epoch: u8,
    /// The owner whose lease set the end of the key last.
    pub(super) ends_with: Option<Owner>,
    /// The last fence of the slot.
    pub(super) last: u8,
    pub(super) queue: List<Owner, MOST>,
    /// The number of grants. No rule reads it, or any field below.
    pub(super) grants: u8,
    /// The number of eras: a new one begins when holders follow others that exclude them.
    pub(super) eras: u8,
    /// The greatest token that was granted.
    pub(super) greatest: u8,
    /// The era of the newest grant.
    pub(super) era: u8,
    pub(super) was_shared: bool,
}

/// An attempt of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Owner {
    pub(super) client: u8,
    pub(super) round: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Lease {
    pub(super) owner: Owner,
    pub(super) has_ended: bool,
    pub(super) grant: Grant,
}

/// A grant: its token, and for the properties its number and its era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Grant {
    pub(super) token: u8,
    pub(super) number: u8,
    pub(super) era: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) round: u8,
    pub(super) phase: Phase,
    pub(super) requests: List<Request, 4>,
    pub(super) answers: List<Answer, 4>,
    /// The questions of this attempt that were answered with *busy*, the newest last.
    pub(super) asked: List<Asked, 2>,
    /// The token of an earlier attempt, with which it may still write.
    pub(super) past: Option<Grant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Asking,
    Waiting,
    Holding {
        grant: Grant,
        has_renewed: bool,
        has_written: bool,
    },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) owner: Owner,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Acquire,
    Renew,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Answer {
    pub(super) owner: Owner,
    pub(super) what: Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Granted {
        grant: Grant,
        /// The lease has ended since.
        is_late: bool,
    },
    Busy(Asked),
    Renewed(bool),
    Released,
}

/// A question that was answered with *busy*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    /// The last fence that the answer named.
    pub(super) last: u8,
    /// The grants until then, which no rule reads.
    pub(super) grants: u8,
}

/// The message of a grant to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Hint {
    pub(super) owner: Owner,
    pub(super) count: u8,
    pub(super) grant: Grant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Resource {
    pub(super) token: u8,
    pub(super) era: u8,
}

/// The broken promises that the rest of a state does not show.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a promise of its own"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    pub(super) passed_over: bool,
    pub(super) left_waiting: bool,
    pub(super) valid_write_refused: bool,
    pub(super) late_write_taken: bool,
    pub(super) dated_after_its_grant: bool,
    pub(super) smaller_token: bool,
    pub(super) old_token: bool,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process asks for the lock, or again.
    Ask(usize),
    /// The store carries out the oldest request of the process.
    Serve(usize),
    /// The process gets its oldest answer.
    Hear(usize),
    /// The message of a grant comes.
    Hint(usize),
    /// The process renews its lease.
    Renew(usize),
    /// The process gives up, ends its section, or has lost its lease.
    Leave(usize),
    /// A lease ends in the store.
    End(usize),
    /// The process writes under its lease.
    Write(usize),
    /// A write of an earlier attempt comes.
    LateWrite(usize),
    /// The replica receives nothing from now on.
    Copy,
    /// The replica takes the place of the store.
    RollBack,
}
