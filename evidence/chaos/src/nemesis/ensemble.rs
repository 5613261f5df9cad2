//! Members of an ensemble that are killed, stand still, and are separated from the others.

use super::Nemesis;
use crate::{
    ensemble::{Ensemble, MEMBERS},
    fault::Kind,
};

impl Nemesis<'_> {
    /// Makes the fault, and returns whether any process has felt it: without their leader, all do.
    pub(super) async fn break_ensemble(&mut self, kind: Kind, ensemble: &Ensemble) -> bool {
        let leader = ensemble.leader().await;
        let all = (0..MEMBERS).collect::<Vec<_>>();
        let world = self.world;
        let is_used = |member: &usize| *member == leader || world.connections_to(*member) > 0;
        let members = match kind {
            Kind::MemberKilled | Kind::MemberStopped => {
                // Only a follower with connections is missed, and managers stay with the leader once they have come to it.
                world.drive_away_from(leader).await;
                let mut others = all;
                others.retain(|member| *member != leader && is_used(member));
                self.random.some(others, 1)
            }
            Kind::MajorityKilled | Kind::MajorityStopped => self.random.some(all, MEMBERS / 2 + 1),
            Kind::EnsembleKilled => all,
            _ => vec![leader],
        };
        let are_used = members.iter().any(is_used);
        // Else the old leader may come back before it is missed.
        let is_replaced = members == [leader] && self.random.one_in(2);
        match kind {
            Kind::LeaderIsolated => ensemble.isolate(leader).await,
            Kind::MemberStopped | Kind::LeaderStopped | Kind::MajorityStopped => {
                for member in &members {
                    ensemble.pause(*member);
                }
            }
            _ => {
                for member in &members {
                    ensemble.kill(*member);
                }
            }
        }
        if is_replaced {
            ensemble.until_replaced(leader).await;
        }
        self.keep().await;
        match kind {
            Kind::LeaderIsolated => ensemble.rejoin(),
            Kind::MemberStopped | Kind::LeaderStopped | Kind::MajorityStopped => {
                for member in &members {
                    ensemble.resume(*member);
                }
            }
            _ => ensemble.restart(&members).await,
        }
        are_used
    }
}
