//! Which node a slot belongs to, as far as is known, and the nodes themselves.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::topology::Topology;
use crate::store::redis::{node::Node, slot::SLOTS, supervisor::State, url::Address};

/// A master, over whose connection all requests to its slots go.
pub(super) struct Member {
    pub(super) address: Address,
    /// Its URL without the password.
    pub(super) shown: String,
    pub(super) node: Node,
    /// Somebody was sent there since the map was made: it may be about to get a slot.
    named: AtomicBool,
    gone: AtomicBool,
}

impl Member {
    pub(super) fn new(address: Address, shown: String, node: Node) -> Self {
        Self {
            address,
            shown,
            node,
            named: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    /// Whether it was dropped from the map; its connection has ended with that.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Whether its last attempt to connect has failed.
    pub(super) fn has_failed(&self) -> bool {
        matches!(&*self.node.state().borrow(), State::Failed(_))
    }

    fn leave(&self) {
        self.gone.store(true, Ordering::Release);
        self.node.close();
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[derive(Default)]
pub(super) struct Map {
    /// Empty until something is known.
    slots: Vec<Option<Arc<Member>>>,
    members: HashMap<Address, Arc<Member>>,
    replicas: HashSet<Address>,
}

impl Map {
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Member>> {
        self.slots.get(usize::from(slot))?.clone()
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.values()
    }

    /// All that may know the cluster.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.members.keys().chain(&self.replicas)
    }

    /// The node at `address`, which `start` makes if it is new.
    pub(super) fn member(
        &mut self,
        address: &Address,
        start: impl FnOnce(&Address) -> Member,
    ) -> Arc<Member> {
        let known = self.members.entry(address.clone());
        known.or_insert_with(|| Arc::new(start(address))).clone()
    }

    /// The node at `address`, to which another has sent a request.
    pub(super) fn named(
        &mut self,
        address: &Address,
        start: impl FnOnce(&Address) -> Member,
    ) -> Arc<Member> {
        let member = self.member(address, start);
        member.named.store(true, Ordering::Relaxed);
        member
    }

    /// A node has said that the slot is another's.
    pub(super) fn moved(&mut self, slot: u16, member: Arc<Member>) {
        self.slots.resize(SLOTS, None);
        self.slots[usize::from(slot)] = Some(member);
    }

    /// Takes over what a node knows. Who is no master any more has gone, with its connection.
    ///
    /// `false` if some were spared because others had named them meanwhile: the next map decides.
    pub(super) fn apply(&mut self, topology: Topology, start: impl Fn(&Address) -> Member) -> bool {
        let mut slots = vec![None; SLOTS];
        let mut masters = HashSet::new();
        for (range, address) in topology.masters {
            let member = self.member(&address, &start);
            for slot in range {
                slots[usize::from(slot)] = Some(member.clone());
            }
            masters.insert(address);
        }
        self.slots = slots;
        self.replicas = topology.replicas;
        let mut is_settled = true;
        self.members.retain(|address, member| {
            let was_named = member.named.swap(false, Ordering::Relaxed);
            if masters.contains(address) {
                return true;
            }
            if was_named {
                is_settled = false;
            } else {
                member.leave();
            }
            was_named
        });
        is_settled
    }
}
