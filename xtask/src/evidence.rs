//! Evidence that locks hold, beyond single tests: a model, a simulation, chaos among real parts, and mistakes that tests have
//! to notice.
//!
//! Each is a program of its own under `evidence/`. Here it is built and started, with the servers that it needs.

use clap::Args;

use crate::cargo::{self, Call};
use crate::gate::{self, Manner};
use crate::steps::Step;
use crate::tools;

#[derive(Args)]
pub(crate) struct Model {
    /// Larger bounds: more clients, more rounds, more faults
    #[arg(long)]
    large: bool,
}

#[derive(Args)]
pub(crate) struct Sim {
    /// Replays one run, and shows it event by event
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,

    /// How many runs, each with a seed of its own
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,

    /// The first of these seeds
    #[arg(long, default_value_t = 0)]
    from: u64,
}

#[derive(Args)]
pub(crate) struct Chaos {
    /// For how long
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,

    /// What decides about the faults [default: a new one, which is printed]
    #[arg(long)]
    seed: Option<u64>,

    /// Only with servers that belong together like this, such as `postgres` [default: all, side by side]
    #[arg(long)]
    topology: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Mutants {
    /// Mistakes of the list by their names, or `--sample COUNT` and rooms for such as are drawn; `--help` has all options
    #[arg(
        value_name = "NAME|OPTION",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<String>,
}

impl Model {
    pub(crate) fn run(&self) -> Result<(), String> {
        let words = self.large.then(|| "--large".to_owned());
        cargo::build_and_start(
            &Call::new("build --release --locked --package dlock-model"),
            "dlock-model",
            words.as_slice(),
        )
    }
}

impl Sim {
    pub(crate) fn run(&self) -> Result<(), String> {
        cargo::build_and_start(
            &Call::new("build --release --locked --package dlock-sim"),
            "dlock-sim",
            &self.words(),
        )
    }

    fn words(&self) -> Vec<String> {
        match self.seed {
            Some(seed) => vec![format!("--seed={seed}")],
            None => vec![
                format!("--seeds={}", self.seeds),
                format!("--from={}", self.from),
            ],
        }
    }
}

impl Chaos {
    pub(crate) fn run(&self) -> Result<(), String> {
        tools::provide(&[&tools::REDIS])?;
        if self.needs("postgres") {
            tools::provide(&[&tools::POSTGRES])?;
        }
        if self.needs("etcd") {
            tools::provide(tools::ETCDS)?;
        }
        if self.needs("zookeeper") {
            tools::provide(tools::ZOOKEEPER)?;
        }
        cargo::build_and_start(
            &Call::new("build --release --locked --package dlock-chaos"),
            "dlock-chaos",
            &self.words(),
        )
    }

    /// Whether a topology of this store is among those of the run.
    fn needs(&self, store: &str) -> bool {
        let mut chosen = self.topology.iter();
        self.topology.is_empty() || chosen.any(|topology| topology.starts_with(store))
    }

    fn words(&self) -> Vec<String> {
        let mut words = vec![format!("--minutes={}", self.minutes)];
        words.extend(self.seed.map(|seed| format!("--seed={seed}")));
        let topologies = self.topology.iter();
        words.extend(topologies.map(|topology| format!("--topology={topology}")));
        words
    }
}

impl Mutants {
    pub(crate) fn run(&self) -> Result<(), String> {
        if !gate::run(&[Step::Server, Step::ZooKeeper], Manner::default()) {
            return Err("the servers of the tests are missing".to_owned());
        }
        let program = Call::new("run --quiet --locked --package dlock-mutants --");
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        if program.run_with(&words) {
            Ok(())
        } else {
            Err("a mistake was not noticed, or not tried".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_passed_on() {
        let sim = |seed| Sim {
            seed,
            seeds: 5,
            from: 7,
        };
        assert_eq!(sim(Some(3)).words(), ["--seed=3"]);
        assert_eq!(sim(None).words(), ["--seeds=5", "--from=7"]);
        let chaos = Chaos {
            minutes: 0.5,
            seed: Some(9),
            topology: vec!["postgres".to_owned()],
        };
        assert_eq!(
            chaos.words(),
            ["--minutes=0.5", "--seed=9", "--topology=postgres"]
        );
    }

    #[test]
    fn the_servers_of_the_topologies_are_needed() {
        let needed = |topologies: &[&str]| {
            let chaos = Chaos {
                minutes: 1.0,
                seed: None,
                topology: topologies.iter().map(|it| (*it).to_owned()).collect(),
            };
            ["postgres", "etcd", "zookeeper"].map(|store| chaos.needs(store))
        };
        assert_eq!(needed(&[]), [true; 3]);
        assert_eq!(needed(&["single"]), [false; 3]);
        assert_eq!(needed(&["etcd", "postgres-standby"]), [true, true, false]);
    }
}
