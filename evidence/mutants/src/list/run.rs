//! Mistakes in `dlock run`.

use super::super::look::Look::{self, Tests};
use super::super::look::{COMMAND, TYPED};
use super::super::mutant::Mutant;

const CHILD: &str = "dlock-cli/src/commands/run/command.rs";
const TREE: &str = "dlock-cli/src/commands/run/tree.rs";
const RECORD: &str = "dlock-cli/src/commands/run/record.rs";
const SUPERVISE: &str = "dlock-cli/src/commands/run/supervise.rs";
const WATCHDOG: &str = "dlock-cli/src/commands/run/watchdog.rs";

const RUNS: &[Look] = &[
    Tests(COMMAND, &["run"]),
    Tests(TYPED, &["run"]),
    Tests(TYPED, &["arguments", "documented"]),
];

const METRICS: &[Look] = &[Tests(TYPED, &["run_metrics"])];

pub(super) const ALL: &[Mutant] = &[
    // The command.
    Mutant::new(
        "group-not-signalled",
        "A signal to end reaches the command alone, and not what it has started",
        CHILD,
        "let _ = «kill_process_group(*pid, signal)»;",
        "kill_process(*pid, signal)",
        RUNS,
    ),
    Mutant::new(
        "tree-not-terminated",
        "At a terminal SIGTERM reaches the command alone",
        CHILD,
        "reached = Signalled::All; «tree.terminate();»",
        "let _ = tree; let _ = kill_process(self.pid, signal);",
        RUNS,
    ),
    Mutant::new(
        "no-tree-at-a-terminal",
        "At a terminal the command alone ends with its lease",
        CHILD,
        "«Tree::of(pid, earlier).map_or(Target::Process(pid), Target::Tree)»",
        "{ let _ = Tree::of(pid, earlier); Target::Process(pid) }",
        RUNS,
    ),
    Mutant::new(
        "reused-id-is-a-member",
        "At a terminal a process ends whose id another one had before",
        TREE,
        "«it.identity == self.command» || self.told",
        "it.identity.pid == self.command.pid",
        RUNS,
    ),
    Mutant::new(
        "tree-asked-only",
        "At a terminal what does not end is not killed",
        TREE,
        "for member in stopped { send(member, «Signal::KILL»);",
        "Signal::CONT",
        RUNS,
    ),
    Mutant::new(
        "term-does-not-end-the-rest",
        "SIGTERM is not taken for the wish that all ends",
        CHILD,
        "Target::Group(pid) if «matches!(signal, Signal::INT | Signal::QUIT | Signal::TERM)» => {",
        "matches!(signal, Signal::INT | Signal::QUIT)",
        RUNS,
    ),
    Mutant::new(
        "command-without-token",
        "The command does not get its fencing token",
        CHILD,
        ".env(\"DLOCK_FENCING_TOKEN\", «token.to_string()»)",
        "String::new()",
        RUNS,
    ),
    // The time in which it runs.
    Mutant::new(
        "command-outlives-lease",
        "A lease that is not renewed any more is no reason to end the command before",
        SUPERVISE,
        "if «to_spare.is_zero()» { break Reason::NotRenewed;",
        "false",
        RUNS,
    ),
    Mutant::new(
        "run-loss-ignored",
        "A lease that is lost is no reason to end the command",
        SUPERVISE,
        "lost = guard.lost() => «break Reason::Lost(lost)»,",
        "drop(lost)",
        RUNS,
    ),
    Mutant::new(
        "signals-not-passed-on",
        "Signals are not passed on to the command",
        SUPERVISE,
        "signal = signals.next() => «command.pass_on(signal)»,",
        "drop(signal)",
        RUNS,
    ),
    Mutant::new(
        "max-hold-outlives-lease",
        "After `--max-hold` a command may outlive its lease",
        SUPERVISE,
        "_ = guard.lost() => «return None»,",
        "sleep(term.tick()).await",
        RUNS,
    ),
    Mutant::new(
        "followers-outlive-lease",
        "What a command has started may outlive the lease",
        SUPERVISE,
        "«command.followed_by_others(Instant::now()).await;»",
        "",
        RUNS,
    ),
    // The watchdog.
    Mutant::new(
        "watchdog-hears-signals",
        "The watchdog ends by a signal that is meant for the whole service",
        WATCHDOG,
        "let _deaf = Signals::listen()?;",
        "",
        RUNS,
    ),
    Mutant::new(
        "watchdog-in-the-group",
        "The watchdog gets what is typed at the terminal",
        WATCHDOG,
        "// Signals that are typed at a terminal do not reach it. .process_group(«0»)",
        "rustix::process::getpgrp().as_raw_nonzero().get()",
        RUNS,
    ),
    // The metrics.
    Mutant::new(
        "record-half-written",
        "The collector reads half of a file",
        RECORD,
        "let replaced = «written.and_then(|()| fs::rename(&new, file))»;",
        "written.and_then(|()| fs::remove_file(&new)).and_then(|()| fs::write(file, text))",
        METRICS,
    ),
    Mutant::new(
        "record-unescaped",
        "A key with a quote makes the file invalid",
        RECORD,
        "let (key, namespace) = («escaped(&args.key)»,",
        "args.key.clone()",
        METRICS,
    ),
];
