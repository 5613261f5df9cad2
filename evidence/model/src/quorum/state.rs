//! The knowledge of the nodes and the clients, the messages between them, and the possible actions.

use crate::list::List;

/// The nodes.
pub(super) const NODES: usize = 3;
/// The most clients.
pub(super) const MOST: usize = 3;

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) nodes: [Node; NODES],
    pub(super) clients: [Client; MOST],
    /// In no order.
    pub(super) messages: List<Message, 18>,
    /// The fences of all grants, a bit for each.
    pub(super) granted: u32,
    /// The greatest of them.
    pub(super) greatest: u8,
    /// The greatest count when a node forgot: clocks have gone on since.
    pub(super) clock: u8,
    pub(super) forgets: u8,
    pub(super) repeats: u8,
    pub(super) faults: Faults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) last: u8,
    pub(super) held: Option<Held>,
    /// It has forgotten everything, and stays out until these are over.
    pub(super) out_for: u8,
}

/// The holder of a node, with its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) id: u8,
    pub(super) fence: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) round: u8,
    pub(super) phase: Phase,
    /// The greatest fence it has seen.
    pub(super) seen: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Asking {
        votes: [Vote; NODES],
        /// The fence to be confirmed.
        chosen: Option<u8>,
        /// The greatest fence that had been granted when it began.
        after: u8,
        /// It takes longer than the TTL.
        is_late: bool,
    },
    Holding {
        fence: u8,
        /// The nodes that were asked to take it again.
        retaken: u8,
    },
    Done,
}

/// The last word of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Vote {
    Pending,
    Granted(u8),
    Raising { from: u8, to: u8 },
    Busy,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Message {
    pub(super) node: u8,
    pub(super) id: u8,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum What {
    Acquire { proposal: u8 },
    Granted { fence: u8 },
    Busy { last: u8 },
    Raise { from: u8, to: u8 },
    Raised { to: u8, is_raised: bool },
    Retake { fence: u8 },
    Retaken,
    Release,
}

/// The broken promises, which the rest of a state does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    pub(super) same_fence: bool,
    pub(super) later_is_smaller: bool,
    pub(super) out_of_order: bool,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client asks all nodes.
    Ask(usize),
    /// The client gives up, or ends its section.
    Leave(usize),
    /// The client's renewal has found its lock gone at a node.
    Retake(usize, usize),
    /// A message arrives.
    Deliver(usize),
    /// A message arrives, and will once more.
    Repeat(usize),
    /// A node's lock ends by itself.
    End(usize),
    /// A node starts anew without its data.
    Forget(usize),
}
