//! The mistakes, and what has to notice each.
//!
//! Each is a small change that could be made in good faith. Those that break a rule of
//! `ARCHITECTURE.md`, or of the head of a store, quote it.

mod attribute;
mod blocking;
mod cluster;
mod confirm;
mod connections;
mod doctor;
mod etcd;
mod etcd_admin;
mod etcd_late;
mod etcd_near;
mod guard;
mod homes;
mod modes;
mod operators;
mod options;
mod pace;
mod page;
mod postgres;
mod quorum;
mod reloads;
mod renewals;
mod rules;
mod run;
mod scripts;
mod serve;
mod several;
mod state;
mod turns;
mod zookeeper;
mod zookeeper_admin;
mod zookeeper_astray;
mod zookeeper_grants;
mod zookeeper_tls;

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
        options::ALL,
        attribute::ALL,
        several::ALL,
        confirm::ALL,
        connections::ALL,
        doctor::ALL,
        cluster::ALL,
        homes::ALL,
        quorum::ALL,
        scripts::ALL,
        modes::ALL,
        postgres::ALL,
        etcd::ALL,
        etcd_admin::ALL,
        etcd_late::ALL,
        etcd_near::ALL,
        zookeeper::ALL,
        zookeeper_admin::ALL,
        zookeeper_astray::ALL,
        zookeeper_grants::ALL,
        zookeeper_tls::ALL,
        reloads::ALL,
        run::ALL,
        pace::ALL,
        page::ALL,
        serve::ALL,
        operators::ALL,
    ];
    parts.into_iter().flatten().collect()
}
