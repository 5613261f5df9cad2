//! A model of several nodes and clients. Messages arrive in any order, late, more than once or never, and a node may
//! lose a lock at any moment. The model assumes nothing about time.
//!
//! The clients decide with the real [`Tally`].

use proptest::prelude::*;

use super::super::{
    node_set::NodeSet,
    tally::{Step, Tally, Vote},
};
use crate::store::{AcquireOutcome, Holder, Raised};

/// The rules of the nodes and clients in the model; all but the first are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// The rules of the product.
    Right,
    /// A node confirms a raise although the lock is gone.
    RaiseAnywhere,
    /// A node raises the fence of any lease of the owner, also of a new one.
    RaiseAnew,
    /// The client uses the greatest fence without a confirmation.
    NoRaise,
    /// A node to which a release was sent receives a new request under the same id.
    SameId,
}

#[derive(Default)]
struct Node {
    last: u64,
    held: Option<(u64, u64)>,
}

#[derive(Clone, Debug)]
enum Message {
    Acquire {
        node: usize,
        id: u64,
        proposal: u64,
    },
    Acquired {
        node: usize,
        id: u64,
        answer: AcquireOutcome,
    },
    Raise {
        node: usize,
        id: u64,
        from: u64,
        to: u64,
    },
    Raised {
        node: usize,
        id: u64,
        to: u64,
        answer: Raised,
    },
    Release {
        node: usize,
        id: u64,
    },
}

struct Attempt {
    id: u64,
    begun: usize,
    tally: Tally,
}

struct Grant {
    id: u64,
    begun: usize,
    granted: usize,
    fence: u64,
}

struct World {
    rules: Rules,
    nodes: Vec<Node>,
    clients: Vec<Option<Attempt>>,
    /// The last fence that each client has seen. Its clock may be behind it.
    seen: Vec<u64>,
    messages: Vec<Message>,
    grants: Vec<Grant>,
    next_id: u64,
    step: usize,
    /// `true` if a client trusted a grant that its own late release had released.
    robbed: bool,
    losses: bool,
}

impl World {
    fn new(rules: Rules, nodes: usize, clients: usize, losses: bool) -> Self {
        Self {
            rules,
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            clients: (0..clients).map(|_| None).collect(),
            seen: vec![0; clients],
            messages: Vec::new(),
            grants: Vec::new(),
            next_id: 1,
            step: 0,
            robbed: false,
            losses,
        }
    }

    /// Lets one event happen, selected by `choice`.
    fn happen(&mut self, choice: u16) {
        self.step += 1;
        let (what, which) = (choice % 16, usize::from(choice / 16));
        match what {
            // Mostly messages arrive; some of them arrive again later.
            0..=10 if !self.messages.is_empty() => {
                let at = which % self.messages.len();
                let message = if what == 10 {
                    self.messages[at].clone()
                } else {
                    self.messages.swap_remove(at)
                };
                self.deliver(message);
            }
            11 if !self.messages.is_empty() => {
                let at = which % self.messages.len();
                self.messages.swap_remove(at);
            }
            12 if self.losses => self.lose(which),
            13 => self.give_up(which % self.clients.len()),
            _ => self.begin(which % self.clients.len(), which as u64 / 8),
        }
    }

    fn lose(&mut self, which: usize) {
        let node = which % self.nodes.len();
        self.nodes[node].held = None;
    }

    fn begin(&mut self, client: usize, clock: u64) {
        if self.clients[client].is_some() {
            return;
        }
        let id = match self.rules {
            // The ids differ between clients, and in nothing else.
            Rules::SameId => client as u64 + 1,
            _ => self.next_id,
        };
        self.next_id += 1;
        // The clock may be wrong in any way, but a client remembers the fences that it has seen.
        let proposal = (clock % 4).max(self.seen[client] + 1);
        self.clients[client] = Some(Attempt {
            id,
            begun: self.step,
            tally: Tally::new(self.nodes.len()),
        });
        let ask = |node| Message::Acquire { node, id, proposal };
        self.messages.extend((0..self.nodes.len()).map(ask));
    }

    fn give_up(&mut self, client: usize) {
        if let Some(Attempt { id, .. }) = self.clients[client].take() {
            self.release(id);
        }
    }

    fn release(&mut self, id: u64) {
        let release = |node| Message::Release { node, id };
        self.messages.extend((0..self.nodes.len()).map(release));
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Acquire { node, id, proposal } => {
                let it = &mut self.nodes[node];
                let answer = match it.held {
                    Some((holder, fence)) if holder == id => AcquireOutcome::granted(fence),
                    Some(_) => AcquireOutcome::Busy(Holder {
                        last_fence: it.last,
                        ..Holder::default()
                    }),
                    None => {
                        it.last = proposal.max(it.last + 1);
                        it.held = Some((id, it.last));
                        AcquireOutcome::granted(it.last)
                    }
                };
                self.messages.push(Message::Acquired { node, id, answer });
            }
            Message::Raise { node, id, from, to } => {
                let it = &mut self.nodes[node];
                let mut answer = Raised::NotOwner;
                let any = self.rules == Rules::RaiseAnew;
                let is_meant = |(holder, held): &&mut (u64, u64)| {
                    *holder == id && (any || *held == from || *held == to)
                };
                if let Some((_, held)) = it.held.as_mut().filter(is_meant) {
                    *held = to.max(*held);
                    answer = Raised::Raised;
                } else if self.rules == Rules::RaiseAnywhere {
                    answer = Raised::Raised;
                }
                if answer == Raised::Raised {
                    it.last = it.last.max(to);
                }
                self.messages.push(Message::Raised {
                    node,
                    id,
                    to,
                    answer,
                });
            }
            Message::Release { node, id } => {
                let it = &mut self.nodes[node];
                if it.held.is_some_and(|(holder, _)| holder == id) {
                    it.held = None;
                    let is_wanted = |attempt: &Attempt| attempt.id == id;
                    self.robbed |= self.clients.iter().flatten().any(is_wanted);
                }
            }
            Message::Acquired { node, id, answer } => {
                let Some(client) = self.client_of(id) else {
                    return;
                };
                let fence = match &answer {
                    AcquireOutcome::Granted { fence, .. } => *fence,
                    AcquireOutcome::Busy(holder) => holder.last_fence,
                };
                self.seen[client] = self.seen[client].max(fence);
                let attempt = self.clients[client].as_mut().expect("it was found");
                attempt.tally.acquired(node, Ok(answer));
                self.go_on(client);
            }
            Message::Raised {
                node,
                id,
                to,
                answer,
            } => {
                let Some(client) = self.client_of(id) else {
                    return;
                };
                let attempt = self.clients[client].as_mut().expect("it was found");
                // A request has one answer.
                if matches!(attempt.tally.votes()[node], Vote::Raising { to: asked, .. } if asked == to)
                {
                    attempt.tally.raised(node, Ok(answer));
                    self.go_on(client);
                }
            }
        }
    }

    fn client_of(&self, id: u64) -> Option<usize> {
        let mut clients = self.clients.iter();
        clients.position(|attempt| attempt.as_ref().is_some_and(|attempt| attempt.id == id))
    }

    fn go_on(&mut self, client: usize) {
        let attempt = self.clients[client].as_mut().expect("it has been answered");
        let (id, begun) = (attempt.id, attempt.begun);
        let fence = match attempt.tally.step() {
            Step::Wait => return,
            Step::Raise(nodes, fence) if self.rules != Rules::NoRaise => {
                self.send_raises(client, nodes, fence);
                return;
            }
            Step::Grant(fence) | Step::Raise(_, fence) => fence,
            Step::Refuse => return self.give_up(client),
        };
        self.grants.push(Grant {
            id,
            begun,
            granted: self.step,
            fence,
        });
        self.give_up(client);
    }

    fn send_raises(&mut self, client: usize, nodes: NodeSet, to: u64) {
        let attempt = self.clients[client].as_ref().expect("it goes on");
        let raise = |node| Message::Raise {
            node,
            id: attempt.id,
            from: attempt.tally.counted(node),
            to,
        };
        self.messages.extend(nodes.iter().map(raise));
    }

    /// Returns the violation among the grants so far.
    fn fault(&self) -> Option<String> {
        for (at, one) in self.grants.iter().enumerate() {
            for other in &self.grants[at + 1..] {
                let (a, b) = (one.id, other.id);
                if one.fence == other.fence {
                    return Some(format!("{a} and {b} both have {}", one.fence));
                }
                if one.granted < other.begun && one.fence > other.fence {
                    return Some(format!(
                        "{b} was begun after {a} was granted {}, and has {}",
                        one.fence, other.fence
                    ));
                }
            }
        }
        self.robbed
            .then(|| "a late release took what was wanted".to_owned())
    }
}

fn run(mut world: World, choices: impl IntoIterator<Item = u16>) -> (World, Option<String>) {
    for choice in choices {
        world.happen(choice);
        let fault = world.fault();
        if fault.is_some() {
            return (world, fault);
        }
    }
    (world, None)
}

/// Returns pseudo-random numbers, the same for each seed.
fn numbers(seed: u64) -> impl Iterator<Item = u16> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u16::try_from(state >> 48).expect("16 bits are left")
    })
}

/// Returns the first violation that is found under these rules, with three nodes.
fn fault_under(rules: Rules) -> Option<String> {
    (0..150_000).find_map(|seed| {
        let losses = rules != Rules::SameId;
        run(World::new(rules, 3, 3, losses), numbers(seed).take(150)).1
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn tokens_are_unique_and_grow_whatever_becomes_of_messages_and_locks(
        nodes in 3_usize..6,
        clients in 2_usize..4,
        losses in any::<bool>(),
        choices in prop::collection::vec(any::<u16>(), 0..300),
    ) {
        let (_, fault) = run(World::new(Rules::Right, nodes, clients, losses), choices);
        prop_assert_eq!(fault, None, "broken promise: the model of a quorum is violated");
    }
}

#[test]
fn the_model_grants_and_raises() {
    let worlds = (0..200).map(|seed| {
        run(
            World::new(Rules::Right, 3, 3, true),
            numbers(seed).take(400),
        )
    });
    let grants: usize = worlds
        .map(|(world, fault)| {
            assert_eq!(
                fault, None,
                "broken promise: the model of a quorum is violated"
            );
            world.grants.len()
        })
        .sum();
    assert!(grants > 1000, "only {grants}");
}

#[test]
fn the_model_finds_what_is_wrong_with_a_raise_that_is_counted_anywhere() {
    let fault = fault_under(Rules::RaiseAnywhere)
        .expect("broken promise: the model does not find what is wrong: two have the same");
    assert!(
        fault.contains("both have") || fault.contains("begun after"),
        "{fault}"
    );
}

/// Such runs find a tally that counts a late grant with a greater fence as a confirmation.
#[test]
fn five_nodes_that_answer_late_never_give_one_fence_twice() {
    for seed in 0..20_000 {
        let (_, fault) = run(
            World::new(Rules::Right, 5, 2, true),
            numbers(seed).take(300),
        );
        assert_eq!(
            fault, None,
            "broken promise: the model of a quorum is violated by seed: {seed}"
        );
    }
}

#[test]
fn the_model_finds_what_is_wrong_with_a_raise_of_another_grant() {
    let fault = fault_under(Rules::RaiseAnew)
        .expect("broken promise: the model does not find what is wrong: it was got anew");
    assert!(
        fault.contains("both have") || fault.contains("begun after"),
        "{fault}"
    );
}

#[test]
fn the_model_finds_what_is_wrong_without_a_raise() {
    assert!(
        fault_under(Rules::NoRaise).is_some(),
        "broken promise: the model does not find what is wrong"
    );
}

#[test]
fn the_model_finds_what_is_wrong_with_an_id_that_was_released() {
    let fault = fault_under(Rules::SameId)
        .expect("broken promise: the model does not find what is wrong: a late release takes it");
    assert!(!fault.is_empty());
}
