//! Sets of a quorum's nodes, and the size of a majority.

/// A set of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeSet(u32);

impl NodeSet {
    pub(super) const MOST: usize = 31;

    pub(super) fn all(count: usize) -> Self {
        Self((1 << count) - 1)
    }

    pub(super) fn with(self, node: usize) -> Self {
        Self(self.0 | 1 << node)
    }

    pub(super) fn without(self, nodes: Self) -> Self {
        Self(self.0 & !nodes.0)
    }

    pub(super) fn has(self, node: usize) -> bool {
        self.0 & 1 << node != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..Self::MOST).filter(move |node| self.has(*node))
    }
}

impl FromIterator<usize> for NodeSet {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Self {
        nodes.into_iter().fold(Self::default(), Self::with)
    }
}

/// Returns the smallest majority of `count` nodes.
pub(super) fn majority(count: usize) -> usize {
    count / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_nodes() {
        let all = NodeSet::all(5);
        let some: NodeSet = [1, 3].into_iter().collect();
        assert_eq!((all.len(), some.len()), (5, 2));
        assert_eq!(all.without(some).iter().collect::<Vec<_>>(), [0, 2, 4]);
        assert!(some.has(3) && !some.has(2) && !some.is_empty());
        assert!(all.without(all).is_empty() && NodeSet::default().is_empty());
        assert_eq!(NodeSet::all(NodeSet::MOST).len(), NodeSet::MOST);
        assert_eq!([3, 4, 5, 6].map(majority), [2, 3, 3, 4]);
    }
}
