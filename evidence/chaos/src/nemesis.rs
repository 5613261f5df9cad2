//! Makes faults, one after the other, and waits until each has been got over.

mod ensemble;
mod network;
mod orders;
mod postgres;
mod processes;
mod servers;

use std::time::Duration;

use dlock_testkit::machine_time;
use tokio::time::{Instant, sleep};

use crate::{
    crowd::{About, Crowd, Victim},
    fault::{Fault, Kind},
    random::Random,
    worker::{KEYS, TTL},
    world::{Charge, World},
};

/// How long a fault may last that is to be longer than a lease.
const BEYOND: Duration = Duration::from_millis(700);

/// All locks are available again by then, or a process hangs.
const RECOVERY: Duration = Duration::from_secs(240);

/// The shortest time between two faults.
const REST: Duration = Duration::from_millis(150);

/// So often a fault is tried that nothing has felt.
const TRIES: usize = 10;

const LOOK: Duration = Duration::from_millis(10);

pub(crate) struct Nemesis<'a> {
    pub(crate) world: &'a World,
    pub(crate) crowd: &'a mut Crowd,
    pub(crate) random: Random,
    /// The masters after the last fault.
    in_charge: Vec<Charge>,
    /// When that was.
    since: Duration,
    pub(crate) faults: Vec<Fault>,
}

impl<'a> Nemesis<'a> {
    pub(crate) async fn new(world: &'a World, crowd: &'a mut Crowd, random: Random) -> Self {
        Self {
            in_charge: world.in_charge().await,
            since: machine_time(),
            world,
            crowd,
            random,
            faults: Vec::new(),
        }
    }

    /// Makes a fault, mends it and waits until every lock is had again; once more if nothing has felt it.
    /// An error says what went wrong.
    pub(crate) async fn inflict(&mut self, kind: Kind) -> Result<(), String> {
        for _ in 0..TRIES {
            let rest = self.random.between(REST, 4 * REST);
            sleep(rest).await;
            let began = machine_time();
            let was_felt = self.make(kind).await;
            self.crowd.look();
            if self.crowd.has_crashed() {
                return Err(format!("a process ended by itself, at this: {kind}"));
            }
            self.crowd.fill();
            self.recover(began, kind, was_felt).await?;
            if was_felt {
                return Ok(());
            }
        }
        Err(format!("nothing has felt this {TRIES} times: {kind}"))
    }

    /// Makes a fault and mends it; whether it met anything.
    async fn make(&mut self, kind: Kind) -> bool {
        use Kind as K;
        match kind {
            K::HolderKilled => self.kill(Victim::Holder).await,
            K::WaiterKilled => self.kill(Victim::Waiter).await,
            K::HolderStopped if self.crowd.is_unfenced() && self.world.is_ensemble() => {
                self.stop_in_a_transaction().await
            }
            K::HolderStopped => self.stop(Victim::Holder, true).await,
            K::HolderStoppedBriefly => self.stop(Victim::Holder, false).await,
            K::WaiterStopped => self.stop(Victim::Waiter, true).await,
            K::ConnectionsCut
            | K::ConnectionsRefused
            | K::NetworkSilent
            | K::RepliesLate
            | K::ReplyLost
            | K::RequestLost => self.disturb(kind).await,
            K::ScriptsFlushed
            | K::ClientsKilled
            | K::ClientsPaused
            | K::MemoryFull
            | K::ReadOnly
            | K::WritesRefused
            | K::ScriptHangs
            | K::DataFlushed => self.order(kind).await,
            K::ServerStopped
            | K::ServerKilled
            | K::PoolerKilled
            | K::BackendsTerminated
            | K::StatementsCancelled
            | K::TablesLocked
            | K::StandbyKilled
            | K::StandbyStopped
            | K::PrimaryKilled
            | K::PrimaryReplaced
            | K::MemberKilled
            | K::MemberStopped
            | K::LeaderKilled
            | K::LeaderStopped
            | K::LeaderIsolated
            | K::MajorityKilled
            | K::MajorityStopped
            | K::EnsembleKilled
            | K::ServersOut
            | K::ServerEmptied
            | K::ReplicaKilled
            | K::SentinelKilled
            | K::SentinelStopped
            | K::SlotMoved
            | K::FailOverAsked
            | K::MasterKilled
            | K::MasterStopped => self.break_servers(kind).await,
        }
    }

    /// For how long a fault is kept: often for less than a lease, often for more.
    fn some_time(&mut self) -> Duration {
        self.random
            .between(Duration::from_millis(100), TTL + BEYOND)
    }

    /// Keeps a fault for some time. Now and then a process is killed or stopped meanwhile.
    async fn keep(&mut self) {
        let time = self.some_time();
        if !self.random.one_in(3) {
            return sleep(time).await;
        }
        sleep(time / 2).await;
        let victim = [Victim::Holder, Victim::Waiter][self.random.below(2)];
        if let Some(place) = self.crowd.find(victim, &mut self.random) {
            if self.random.one_in(2) {
                self.crowd.kill(place, victim);
            } else if self.crowd.stop(place, victim, About::Anything) {
                sleep(time / 2).await;
                self.crowd.resume(place);
                return;
            }
        }
        sleep(time / 2).await;
    }

    async fn recover(&mut self, began: Duration, kind: Kind, was_felt: bool) -> Result<(), String> {
        let mended = machine_time();
        self.world.until_well().await;
        let entered = self.until_entered(mended).await;
        let in_charge = self.world.in_charge().await;
        let topology = self.world.topology;
        let is_asked = kind.forgets(topology);
        // A slot that moves and a failover that waits for the replica lose nothing.
        let is_planned = matches!(kind, Kind::SlotMoved | Kind::FailOverAsked);
        let is_unasked = in_charge != self.in_charge
            && !is_asked
            && !is_planned
            && Kind::MasterKilled.forgets(topology);
        let over = machine_time();
        self.faults.push(Fault {
            kind,
            // It may have happened before the fault was made.
            began: if is_unasked { self.since } else { began },
            over,
            was_felt,
            forgets: is_asked || is_unasked,
        });
        self.in_charge = in_charge;
        self.since = over;
        entered
    }

    /// Waits until a section has begun under each key after that moment.
    pub(crate) async fn until_entered(&mut self, after: Duration) -> Result<(), String> {
        let end = Instant::now() + RECOVERY;
        loop {
            self.crowd.look();
            let late = self.crowd.follow.not_entered_since(&KEYS, after);
            if self.crowd.has_crashed() {
                return Err("a process ended by itself".to_owned());
            }
            if late.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("nobody has entered {late:?} for {RECOVERY:?}"));
            }
            sleep(LOOK).await;
        }
    }
}
