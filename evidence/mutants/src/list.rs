//! The mistakes, and what has to notice each.
//!
//! Each is a small change that could be made in good faith. Those that break a rule of
//! `ARCHITECTURE.md`, or of the head of a store, quote it.

mod attribute;
mod blocking;
mod cluster;
mod confirm;
mod connections;
mod etcd;
mod etcd_late;
mod etcd_near;
mod guard;
mod homes;
mod modes;
mod operators;
mod pace;
mod page;
mod postgres;
mod quorum;
mod renewals;
mod rules;
mod run;
mod scripts;
mod serve;
mod several;
mod state;
mod turns;
mod zookeeper;
mod zookeeper_astray;

use super::mutant::Mutant;

/// All of them, in the order in which they are made.
pub(super) fn all() -> Vec<&'static Mutant> {
    let parts = [
        rules::ALL,
        state::ALL,
        turns::ALL,
        renewals::ALL,
        guard::ALL,
        blocking::ALL,
        attribute::ALL,
        several::ALL,
        confirm::ALL,
        connections::ALL,
        cluster::ALL,
        homes::ALL,
        quorum::ALL,
        scripts::ALL,
        modes::ALL,
        postgres::ALL,
        etcd::ALL,
        etcd_late::ALL,
        etcd_near::ALL,
        zookeeper::ALL,
        zookeeper_astray::ALL,
        run::ALL,
        pace::ALL,
        page::ALL,
        serve::ALL,
        operators::ALL,
    ];
    parts.into_iter().flatten().collect()
}
