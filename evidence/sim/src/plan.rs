//! The plan of a run, made from its seed: its participants and its faults.

use std::time::Duration;

use crate::{dice::Dice, flaw::Flaw, server::ServerClock};

/// The longest TTL of a run: a server may keep an abandoned lock for that long.
pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(20);

/// By how much a clock is set back, at the most.
pub(crate) const LONGEST_JUMP: Duration = Duration::from_secs(8);

/// For how long a request may be under way, at the most.
pub(crate) const LONGEST_WAY: Duration = Duration::from_secs(4);

/// One run, before it begins.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each may go wrong without the others"
)]
pub(crate) struct Plan {
    /// How many servers: one, or those of a quorum.
    pub(crate) nodes: usize,
    pub(crate) clocks: Vec<ServerClock>,
    pub(crate) processes: usize,
    pub(crate) most_tasks: u64,
    pub(crate) keys: usize,
    /// For how long things go wrong.
    pub(crate) chaos: Duration,
    /// How long a request is under way when all is well.
    pub(crate) distance: Duration,
    /// How often something happens to a server, a process or a connection.
    pub(crate) pace: Duration,
    /// The fate of single requests when the weather is bad.
    pub(crate) storms: bool,
    /// A request over a connection that broke may be carried out after later ones.
    pub(crate) old_connections: bool,
    /// Servers restart, and keep their data.
    pub(crate) restarts: bool,
    /// Servers forget their data.
    pub(crate) amnesia: Amnesia,
    /// Server clocks are set.
    pub(crate) jumps: Jumps,
    /// Processes are killed, and others started.
    pub(crate) kills: bool,
    /// Processes stand still for a while.
    pub(crate) freezes: bool,
    /// The machine of all processes sleeps.
    pub(crate) sleeps: bool,
    /// Tasks are polled late, one by one.
    pub(crate) late_polls: bool,
    /// Bodies block their thread.
    pub(crate) blocks: bool,
    /// Hints are late, lost and doubled, and more often than not useless by then:
    /// one key, short TTLs, and missing answers.
    pub(crate) bad_hints: bool,
    /// Bodies go on without looking whether they still hold the lock.
    pub(crate) careless: bool,
    /// How tasks want their keys, if not all of them exclusively.
    pub(crate) crowd: Option<Crowd>,
    pub(crate) flaw: Flaw,
}

/// Readers, writers, and those that want a permit.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    /// A task wants one of these, whatever the other tasks want.
    pub(crate) modes: &'static [Wish],
    /// How many permits a key has: all ask for the same number.
    pub(crate) permits: u32,
    /// The TTLs in milliseconds. Only tasks with the same one use a lease together.
    pub(crate) ttls: [u64; 2],
    /// How long a task pauses between its calls at the most.
    pub(crate) pause: Duration,
}

/// How a task wants a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Alone,
    Together,
    Permit,
}

impl Crowd {
    fn new(dice: &Dice, nodes: usize, flaw: Flaw) -> Self {
        use Wish::{Alone, Permit, Together};
        const READERS: &[Wish] = &[Alone, Together, Together, Together];
        const PERMITS: &[Wish] = &[Permit, Permit, Permit, Permit, Alone];
        const ALL: &[Wish] = &[Alone, Together, Together, Permit];
        const NO_WRITERS: &[Wish] = &[Together, Permit];
        let ttls = match flaw {
            Flaw::JoinsAreNotCounted => [100, 300, 300, 600, 1_000],
            _ => [100, 300, 1_000, 3_000, 10_000],
        };
        Self {
            modes: match flaw {
                Flaw::CountsOnePermitTooMany | Flaw::JoinsAreNotCounted => PERMITS,
                Flaw::SharersOvertake => READERS,
                // A quorum has no permits.
                _ if nodes > 1 => READERS,
                _ => dice.pick(&[READERS, PERMITS, ALL, ALL, NO_WRITERS]),
            },
            permits: dice.pick(&[2, 3]),
            ttls: [dice.pick(&ttls), dice.pick(&ttls)],
            pause: Duration::from_millis(dice.pick(&[10, 100, 1_000])),
        }
    }
}

/// How servers forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amnesia {
    No,
    /// One server of a quorum, which then stays away for the longest TTL.
    StaysAway,
    /// At any time.
    Yes,
}

/// How clocks are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Jumps {
    No,
    /// Leases last longer than they should.
    Back,
    Both,
}

impl Plan {
    /// `more` is for what some worlds have and others lack: those without it stay as they are.
    pub(crate) fn new(dice: &Dice, more: &Dice, flaw: Flaw) -> Self {
        let nodes = match flaw {
            _ if flaw.is_about_sharing() => 1,
            // These are about one server, those about several.
            Flaw::HandsOnForASecond
            | Flaw::LastFenceIsTooLow
            | Flaw::RepeatsOldGrantsAsNew
            | Flaw::FencesFollowNoCounter => 1,
            Flaw::RaisesNothing => dice.pick(&[3, 5]),
            _ => dice.pick(&[1, 1, 1, 3, 5]),
        };
        let shares = more.chance(500) || flaw.is_about_sharing();
        let crowd = shares.then(|| Crowd::new(more, nodes, flaw));
        let more_tasks = crowd.as_ref().map_or(0, |_| more.below(4));
        let bad_hints = nodes == 1 && dice.chance(300) || flaw == Flaw::JoinsAreNotCounted;
        // A world that may forget holds less, and is not looked at as closely.
        let loses = dice.chance(300) && flaw == Flaw::None;
        let amnesia = match dice.below(3) {
            0 if nodes > 1 && flaw == Flaw::None => Amnesia::StaysAway,
            1 if loses => Amnesia::Yes,
            _ => Amnesia::No,
        };
        // A server that has forgotten its count has only its clock.
        let jumps = match dice.below(3) {
            _ if amnesia != Amnesia::No => Jumps::No,
            0 => Jumps::Back,
            1 if loses => Jumps::Both,
            _ => Jumps::No,
        };
        let clock = |_| ServerClock {
            fast_by: match flaw {
                Flaw::FastClocks => 100_000,
                // The drift allows for a hundredth.
                _ => i64::try_from(dice.below(18_001)).expect("it is small") - 9_000,
            },
            set_by_micros: if amnesia == Amnesia::No {
                i64::try_from(dice.below(20_000_000)).expect("it is small")
            } else {
                0
            },
        };
        Self {
            nodes,
            clocks: (0..nodes).map(clock).collect(),
            processes: 2 + dice.index(3),
            most_tasks: 1 + dice.below(4) + more_tasks,
            keys: if bad_hints { 1 } else { 1 + dice.index(3) },
            chaos: Duration::from_secs(4 + dice.below(28)),
            distance: Duration::from_micros(dice.pick(&[0, 100, 700, 4_000, 15_000])),
            pace: Duration::from_millis(dice.pick(&[300, 1_000, 4_000])),
            storms: bad_hints || dice.chance(800),
            old_connections: dice.chance(400),
            restarts: dice.chance(500),
            amnesia,
            jumps,
            kills: dice.chance(400),
            freezes: dice.chance(400),
            sleeps: dice.chance(200),
            late_polls: dice.chance(300),
            blocks: dice.chance(200),
            bad_hints,
            careless: dice.chance(200),
            crowd,
            flaw,
        }
    }
}
