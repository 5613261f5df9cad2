//! `cargo xtask check`: what a contributor runs after each change, in a minute or so and without a server.

use std::time::Instant;

use crate::cargo::Call;
use crate::component::Component;
use crate::lanes;
use crate::linted::Lints;
use crate::steps::{Step, test_threads};
use crate::timed::{Times, seconds};
use crate::{verdict, words};

/// The unit tests, and the executables of `tests/` that start nothing. The few unit tests that start servers
/// are left out by their names, and so is the simulation, which takes half a minute. All packages are built
/// with the features that `cargo xtask test` has, so that neither compiles what the other has compiled.
const TESTS: Call = Call::new(
    "test --workspace --exclude dlock-sim --exclude dlock-many-keys --all-features --locked --lib \
     --test in_process --test macro_shapes --test registry --test web_installed \
     -- --skip live_tests --skip a_move_that_nobody_tells_of_is_found_out",
);

/// Runs it up to the first failure.
pub(crate) fn run() -> Result<(), String> {
    let parts = [
        ("fmt", Step::Fmt.component(), Step::Fmt.calls()),
        ("words", None, Vec::new()),
        ("lint", Step::Lint.component(), vec![Step::clippy()]),
        ("test", None, vec![TESTS.with(test_threads())]),
    ];
    let begun = Instant::now();
    let mut lines = Vec::new();
    let times = Times::default();
    for (name, component, calls) in parts {
        println!("\n==> {name}");
        let start = Instant::now();
        component.map_or(Ok(()), Component::provide)?;
        if name == "words" {
            words::check()?;
        }
        if name == "test" {
            let failed = lanes::run(&calls, &times, &Lints::unchecked(), |_| true, || ())?;
            let verdict = verdict::of(&failed);
            verdict.outcome(false)?;
            print!("{}", verdict.block());
        } else if let Some(call) = calls.iter().find(|it| !it.run()) {
            return Err(format!("this failed: {}", call.line()));
        }
        lines.push(format!(
            "{name:<10}ok        {:>9}",
            seconds(start.elapsed())
        ));
    }
    println!("\n{}\n{:>29}", lines.join("\n"), seconds(begun.elapsed()));
    print!("\nthe slowest tests:\n{}", times.slowest());
    println!("\nnot checked: what needs servers, see `cargo xtask test`");
    Ok(())
}
