//! The result of the nodes' answers in one round, as in `store/quorum/tally.rs`.

use super::{
    Quorum, Rule,
    state::{NODES, Vote},
};

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Wait,
    /// To this fence, all that were granted a smaller one.
    Raise(u8),
    Grant(u8),
    Refuse,
}

impl Quorum {
    fn majority(&self) -> usize {
        if self.keeps(Rule::MajorityGrants) {
            NODES / 2 + 1
        } else {
            NODES / 2
        }
    }

    pub(super) fn step(&self, votes: &[Vote; NODES], chosen: &mut Option<u8>) -> Step {
        let count =
            |is_meant: &dyn Fn(&Vote) -> bool| votes.iter().filter(|it| is_meant(it)).count();
        let majority = self.majority();
        let pending = count(&|it| *it == Vote::Pending);
        let granted = count(&|it| matches!(it, Vote::Granted(_)));
        let raising = count(&|it| matches!(it, Vote::Raising { .. }));
        let greatest = votes.iter().map(|vote| match vote {
            Vote::Granted(fence) => *fence,
            _ => 0,
        });
        let greatest = greatest.max().unwrap_or(0);
        let mut fence = match *chosen {
            Some(fence) => fence,
            None if granted >= majority => *chosen.insert(greatest),
            None if granted + pending >= majority => return Step::Wait,
            None => return Step::Refuse,
        };
        if !self.keeps(Rule::FenceIsRaised) {
            return Step::Grant(fence);
        }
        let is_exact = self.keeps(Rule::LateGrantIsExact);
        let confirms = |it: &Vote| match it {
            Vote::Granted(it) if is_exact => *it == fence,
            Vote::Granted(it) => *it >= fence,
            _ => false,
        };
        if count(&confirms) >= majority {
            return Step::Grant(fence);
        }
        let ahead = count(&|it| matches!(it, Vote::Granted(it) if *it > fence));
        if granted - ahead + raising + pending < majority {
            if granted + raising + pending < majority {
                return Step::Refuse;
            }
            fence = *chosen.insert(greatest);
        }
        if count(&|it| matches!(it, Vote::Granted(it) if *it < fence)) == 0 {
            return Step::Wait;
        }
        Step::Raise(fence)
    }
}
