//! What the failure of a test means.
//!
//! Tests run beside compilers and beside each other, and one in thousands then fails by chance. So each test that has failed
//! is started again, alone, once everything else is done: cargo-nextest has `retries` for it, Bazel `flaky`. If it fails again,
//! the run has failed. If it passes, the run says so at its end, and with `--strict` it has failed all the same.
//!
//! A broken promise is never tried again. Two holders of one lock do not vanish by a second run that does not see them.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::cargo;
use crate::executables::Executable;
use crate::timed::{self, Times};

/// Each assertion about a promise of dlock has the first in its message; CONTRIBUTING.md says which ones do. The other is
/// that of proptest, which has found an input that breaks a rule, and may not find it once more.
const NEVER_FORGIVEN: [&str; 2] = ["broken promise: ", "minimal failing input: "];

/// A test executable that has failed, and all that it has written.
pub(crate) struct Failure {
    executable: Executable,
    run: Result<timed::Run, String>,
}

/// The end of all failures.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The failures that count.
    pub(crate) failed: Vec<String>,
    /// The tests that have passed when they were run again, alone.
    pub(crate) passed_alone: Vec<String>,
}

impl Verdict {
    /// The outcome of a run that forgives nothing if it is `strict`.
    pub(crate) fn outcome(&self, strict: bool) -> Result<(), String> {
        let forgiven = if strict {
            self.passed_alone.as_slice()
        } else {
            &[]
        };
        let counting: Vec<_> = self.failed.iter().chain(forgiven).cloned().collect();
        if counting.is_empty() {
            return Ok(());
        }
        Err(counting.join("\n"))
    }

    /// The block at the end of a run; empty if every test has passed at once.
    pub(crate) fn block(&self) -> String {
        if self.passed_alone.is_empty() {
            return String::new();
        }
        let tests = self.passed_alone.join("\n");
        format!("\npassed only when run again, alone, which is a defect of its own:\n{tests}\n")
    }
}

impl Failure {
    pub(crate) fn new(executable: Executable, run: Result<timed::Run, String>) -> Self {
        Self { executable, run }
    }

    /// The call that repeats the executable, and what has failed.
    pub(crate) fn told(&self) -> (String, String) {
        let text = match &self.run {
            Ok(run) => format!("{}\n{}", run.ended(), run.failure()),
            Err(reason) => reason.clone(),
        };
        (self.executable.repeated_by.clone(), text)
    }

    /// The words by which no second run may excuse it.
    fn never_forgiven(&self) -> Option<&'static str> {
        let run = self.run.as_ref().ok()?;
        never_forgiven(&run.failures())
    }

    /// Runs each failed test again, and adds what comes of it to `verdict`.
    fn settle(&self, folder: &Path, verdict: &mut Verdict) -> io::Result<()> {
        let (call, text) = self.told();
        let Ok(run) = &self.run else {
            verdict.failed.push(format!("{call}: {text}"));
            return Ok(());
        };
        let kept = self.keep(folder, &run.output)?;
        let kept = kept.display();
        if let Some(words) = self.never_forgiven() {
            let words = words.trim_end_matches([':', ' ']);
            let text = format!("{call}: {text}\nnot run again ({words}); its output: {kept}");
            verdict.failed.push(text);
            return Ok(());
        }
        for alone in self.tests_alone(run) {
            let call = &alone.repeated_by;
            println!("\n==> again, alone: {call}");
            let again = Self::new(alone.clone(), timed::run(&alone, &Times::default()));
            if again.run.as_ref().is_ok_and(timed::Run::succeeded) {
                println!("<== passed");
                let text = format!("  {call}\n    the output of its first run: {kept}");
                verdict.passed_alone.push(text);
            } else {
                println!("<== FAILED again");
                let (call, text) = again.told();
                let text = format!("{call}: {text}\nthe output of its first run: {kept}");
                verdict.failed.push(text);
            }
        }
        Ok(())
    }

    /// Each failed test by itself; the whole executable if it has not said which.
    fn tests_alone(&self, run: &timed::Run) -> Vec<Executable> {
        let failed = run.failed_tests();
        if failed.is_empty() {
            return vec![self.executable.clone()];
        }
        let failed = failed.iter();
        failed
            .map(|test| self.executable.with(&["--exact", test]))
            .collect()
    }

    /// Writes what the first run has written to a file of its own.
    fn keep(&self, folder: &Path, output: &[u8]) -> io::Result<PathBuf> {
        fs::create_dir_all(folder)?;
        let (package, name) = (self.executable.package(), self.executable.name());
        let place = folder.join(format!("{package}-{name}.txt"));
        fs::write(&place, output)?;
        Ok(place)
    }
}

/// The words in what a test has said by which no second run may excuse it.
pub(crate) fn never_forgiven(said: &str) -> Option<&'static str> {
    NEVER_FORGIVEN.into_iter().find(|it| said.contains(it))
}

/// Removes what an earlier run has kept.
pub(crate) fn begin() {
    // Without a folder nothing has been kept.
    drop(fs::remove_dir_all(folder()));
}

/// Runs failed tests again, one after the other.
pub(crate) fn of(failures: &[Failure]) -> Verdict {
    let mut verdict = Verdict::default();
    for failure in failures {
        if let Err(error) = failure.settle(&folder(), &mut verdict) {
            let (call, text) = failure.told();
            let text = format!("{call}: {text}\nits output cannot be kept: {error}");
            verdict.failed.push(text);
        }
    }
    verdict
}

/// The place of the first outputs.
fn folder() -> PathBuf {
    cargo::target().join("failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict about a shell script that behaves like a test executable.
    fn about(script: &str) -> Verdict {
        let executable = Executable::of_shell(script, "call");
        let run = timed::run(&executable, &Times::default());
        let folder = std::env::temp_dir().join(format!(
            "dlock-verdict-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut verdict = Verdict::default();
        let failure = Failure::new(executable, run);
        failure.settle(&folder, &mut verdict).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        verdict
    }

    const FAILED: &str =
        "echo 'test a::b ... FAILED'; echo; echo failures:; echo; echo '    a::b'; exit 101";

    #[test]
    fn a_test_that_passes_alone_is_named_and_excused_unless_the_run_is_strict() {
        let verdict = about(&format!(
            "[ \"$*\" = '--exact a::b' ] && exit; [ \"$1\" = --list ] && exit; {FAILED}"
        ));
        assert_eq!(verdict.failed, [""; 0]);
        let [passed] = verdict.passed_alone.as_slice() else {
            panic!("one test has passed: {verdict:?}");
        };
        assert!(passed.contains("call -- --exact a::b\n"), "{passed}");
        assert!(passed.contains("the output of its first run: "), "{passed}");
        assert_eq!(verdict.outcome(false), Ok(()));
        assert!(verdict.outcome(true).unwrap_err().contains("a::b"));
        assert!(verdict.block().contains("a::b"));
    }

    #[test]
    fn a_test_that_fails_again_fails_the_run() {
        let verdict = about(&format!("[ \"$1\" = --list ] && exit; {FAILED}"));
        assert_eq!(verdict.passed_alone, [""; 0]);
        let text = verdict.outcome(false).unwrap_err();
        assert!(text.starts_with("call -- --exact a::b: FAILED, "), "{text}");
        assert_eq!(verdict.block(), "");
    }

    #[test]
    fn a_broken_promise_is_not_run_again() {
        for words in [
            "broken promise: two holders",
            "minimal failing input: x = 3",
        ] {
            let verdict = about(&format!(
                "[ \"$*\" = '--exact a::b' ] && exit; [ \"$1\" = --list ] && exit; \
                 echo 'test a::b ... FAILED'; echo; echo failures:; echo '{words}'; exit 101"
            ));
            assert_eq!(verdict.passed_alone, [""; 0]);
            let text = verdict.outcome(false).unwrap_err();
            assert!(
                text.contains(words) && text.contains("not run again"),
                "{text}"
            );
        }
    }

    #[test]
    fn words_of_a_test_that_has_passed_do_not_count() {
        let verdict = about(&format!(
            "[ \"$*\" = '--exact a::b' ] && exit; [ \"$1\" = --list ] && exit; \
             echo 'broken promise: expected by a test'; {FAILED}"
        ));
        assert_eq!(verdict.outcome(false), Ok(()));
    }

    #[test]
    fn an_executable_that_was_killed_is_run_again_as_a_whole() {
        let once = std::env::temp_dir().join(format!("dlock-killed-{}", std::process::id()));
        let script = format!(
            "[ \"$1\" = --list ] && exit; [ -e {0} ] && exit; : > {0}; echo 'test a ... ok'; kill -9 $$",
            once.display()
        );
        let verdict = about(&script);
        fs::remove_file(once).unwrap();
        assert_eq!(verdict.failed, [""; 0]);
        assert!(
            verdict.passed_alone[0].starts_with("  call\n"),
            "{verdict:?}"
        );
        // Its last lines are all that is known of it.
        let broken = about("[ \"$1\" = --list ] && exit; echo 'broken promise: x'; kill -9 $$");
        assert!(broken.failed[0].contains("not run again"), "{broken:?}");
    }
}
