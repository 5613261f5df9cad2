//! The answer to `CLUSTER SLOTS`: the masters with their slots, and the replicas.

use std::{collections::HashSet, ops::RangeInclusive};

use redis::Value;

use crate::store::redis::{
    config::url::Address,
    protocol::{redirect::resolve, slot::SLOTS, value::text},
};

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    /// Some slots are missing if a master is missing.
    pub(crate) masters: Vec<(RangeInclusive<u16>, Address)>,
    /// Nodes that have no locks, but know the masters too.
    pub(crate) replicas: HashSet<Address>,
}

impl Topology {
    /// Reads the answer of the node at `from`. Returns `None` for another form.
    ///
    /// A master without a known address is omitted.
    pub(crate) fn read(answer: &Value, from: &Address) -> Option<Self> {
        let mut topology = Self::default();
        for range in list(answer)? {
            let [first, last, nodes @ ..] = list(range)? else {
                return None;
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last || usize::from(last) >= SLOTS {
                return None;
            }
            for (index, node) in nodes.iter().enumerate() {
                let Some(address) = address(node, from)? else {
                    continue;
                };
                if index == 0 {
                    topology.masters.push((first..=last, address));
                } else {
                    topology.replicas.insert(address);
                }
            }
        }
        // Sorted, so that two answers can be compared: servers list them in different orders.
        topology.masters.sort_by_key(|(range, _)| *range.start());
        Some(topology)
    }

    /// Returns `true` if no other node could confirm it.
    pub(super) fn is_of_one_node(&self) -> bool {
        let mut masters = self.masters.iter().map(|(_, address)| address);
        let first = masters.next();
        self.replicas.is_empty() && masters.all(|it| Some(it) == first)
    }

    /// Returns `true` if both name the same masters.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        self.masters == other.masters
    }
}

/// Returns the address of a node; `Some(None)` if the answer does not contain it.
#[expect(
    clippy::option_option,
    reason = "a missing address and an unreadable one are different"
)]
fn address(node: &Value, from: &Address) -> Option<Option<Address>> {
    let [host, port, rest @ ..] = list(node)? else {
        return None;
    };
    let port = number(port)?;
    // Nil: the host that received the request.
    let host = if matches!(host, Value::Nil) {
        ""
    } else {
        text(host)?
    };
    let known = resolve(host, port, from);
    // A node without a name may still have its address, after its id.
    let other = || {
        let ip = rest.get(1).and_then(|more| field(more, "ip"))?;
        resolve(ip, port, from)
    };
    Some(known.or_else(other).filter(|_| port != 0))
}

/// Returns a field of a node's additional information, whose form depends on the protocol version.
fn field<'a>(more: &'a Value, name: &str) -> Option<&'a str> {
    match more {
        Value::Map(fields) => fields
            .iter()
            .find(|(key, _)| text(key) == Some(name))
            .and_then(|(_, value)| text(value)),
        Value::Array(words) => words
            .chunks_exact(2)
            .find(|pair| text(&pair[0]) == Some(name))
            .and_then(|pair| text(&pair[1])),
        _ => None,
    }
}

fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u16> {
    match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn node(host: Value, port: i64, more: Value) -> Value {
        Value::Array(vec![host, Value::Int(port), word("0123"), more])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        let numbers = [first, last].map(Value::Int);
        Value::Array(numbers.into_iter().chain(nodes).collect())
    }

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp(host.into(), port)
    }

    fn none() -> Value {
        Value::Array(Vec::new())
    }

    fn read(ranges: Vec<Value>) -> Option<Topology> {
        Topology::read(&Value::Array(ranges), &tcp("asked", 1))
    }

    #[test]
    fn masters_and_replicas_are_told_apart() {
        let topology = read(vec![
            range(
                0,
                100,
                vec![
                    node(word("a"), 7000, none()),
                    node(word("b"), 7001, none()),
                    node(word("?"), 7002, none()),
                    // It has no port yet.
                    node(word("c"), 0, none()),
                ],
            ),
            range(101, 16_383, vec![node(word("::1"), 7003, none())]),
        ]);
        let expected = Topology {
            masters: vec![(0..=100, tcp("a", 7000)), (101..=16_383, tcp("::1", 7003))],
            replicas: HashSet::from([tcp("b", 7001)]),
        };
        assert_eq!(topology, Some(expected));
        assert_eq!(read(Vec::new()), Some(Topology::default()));
    }

    /// A cluster may consist of one node. The others of a larger one may know a later state.
    #[test]
    fn an_answer_needs_no_other_if_it_names_one_node_alone() {
        let named = |name: char| tcp(&name.to_string(), 7000);
        for (masters, replicas, is_alone) in [
            ("a", "", true),
            ("aaa", "", true),
            ("aab", "", false),
            ("ab", "c", false),
            ("a", "b", false),
        ] {
            let masters = (0..).zip(masters.chars());
            let topology = Topology {
                masters: masters.map(|(at, it)| (at..=at, named(it))).collect(),
                replicas: replicas.chars().map(named).collect(),
            };
            assert_eq!(topology.is_of_one_node(), is_alone, "{topology:?}");
        }
    }

    #[test]
    fn answers_agree_that_name_the_same_masters_for_the_same_slots() {
        let topology = |last: i64, master: &str, replica: &str| {
            let nodes = [master, replica].map(|it| node(word(it), 7000, none()));
            read(vec![range(0, last, nodes.into())]).expect("it is a topology")
        };
        let one = topology(16_383, "a", "b");
        assert!(one.agrees_with(&topology(16_383, "a", "c")));
        assert!(!one.agrees_with(&topology(16_383, "b", "a")));
        assert!(!one.agrees_with(&topology(16_382, "a", "b")));
    }

    #[test]
    fn a_host_may_be_missing() {
        let more = |pairs: &[&str]| Value::Array(pairs.iter().map(|&it| word(it)).collect());
        let map = Value::Map(vec![(word("ip"), word("10.0.0.4"))]);
        for (host, more, address) in [
            (Value::Nil, none(), Some(tcp("asked", 7))),
            (word(""), none(), Some(tcp("asked", 7))),
            (
                word("?"),
                more(&["ip", "10.0.0.3"]),
                Some(tcp("10.0.0.3", 7)),
            ),
            (word("?"), map, Some(tcp("10.0.0.4", 7))),
            (word("?"), more(&["hostname", "x"]), None),
        ] {
            let shown = format!("{host:?} {more:?}");
            let topology = read(vec![range(5, 6, vec![node(host, 7, more)])]).unwrap();
            let masters: Vec<_> = address.map(|it| (5..=6, it)).into_iter().collect();
            assert_eq!(topology.masters, masters, "{shown}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_no_topology() {
        let one = || vec![node(word("a"), 1, none())];
        for answer in [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![range(6, 5, one())]),
            Value::Array(vec![range(0, 16_384, one())]),
            Value::Array(vec![range(-1, 5, one())]),
            Value::Array(vec![range(0, 5, vec![word("a")])]),
            Value::Array(vec![range(0, 5, vec![node(word("a"), 65_536, none())])]),
        ] {
            let topology = Topology::read(&answer, &tcp("asked", 1));
            assert_eq!(topology, None, "{answer:?}");
        }
    }
}
