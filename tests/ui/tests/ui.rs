//! What a user reads for each mistake: one file of `tests/ui/` per mistake, named after it.
//!
//! The expected messages contain some of rustc's own words, which change from release to release.
//! So they are compared on one release only; that each file reports its mistakes and nothing else
//! is a property of the expected messages and checked everywhere.

use std::{
    env, fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

/// The release that wrote the `.stderr` files.
const WRITTEN_BY: &str = "rustc 1.95";

/// The variable that has precedence over all other flags of rustc.
const VARIABLE: &str = "CARGO_ENCODED_RUSTFLAGS";
/// The flags with which trybuild compiles the cases. It first compiles what they depend on without the last one, and
/// other flags are another build: all of that would be compiled a second time.
const FLAGS: &str = "--cfg\x1ftrybuild\x1f--verbose\x1f-A\x1fdead_code\x1f--diagnostic-width=140";

#[test]
fn messages() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .expect("rustc runs");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.starts_with(WRITTEN_BY) {
        // Not `eprintln!`, which nobody sees of a test that passes.
        writeln!(
            std::io::stderr(),
            "skipped: the messages are those of {WRITTEN_BY}, and this is {}",
            version.trim_end()
        )
        .expect("somebody listens");
        return;
    }
    if env::var(VARIABLE).is_ok_and(|flags| flags == FLAGS) {
        trybuild::TestCases::new().compile_fail("*.rs");
        return;
    }
    // A process of its own: no variable can be set without `unsafe` in one that has threads.
    let own = env::current_exe().expect("it is a file");
    let status = Command::new(own)
        .args(["messages", "--exact", "--nocapture"])
        // The way to choose a case: `cargo test -p dlock-ui -- trybuild=wait_zero`.
        .args(env::args().filter(|it| it.starts_with("trybuild=")))
        .env(VARIABLE, FLAGS)
        // What trybuild finds is in the other output, and two harnesses in one confuse whoever reads it.
        .stdout(Stdio::null())
        .status()
        .expect("it can be started again");
    assert!(status.success(), "the cases have failed: {status}");
}

/// A file says `// mistakes: 3` in its first line if it makes more than one.
#[test]
fn one_error_per_mistake() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = 0;
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let source = fs::read_to_string(&path).expect("a text file");
        let mistakes = source
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("// mistakes: "))
            .map_or(1, |number| number.parse().expect("a number of mistakes"));
        let messages = fs::read_to_string(path.with_extension("stderr"))
            .unwrap_or_else(|_| panic!("{} has no expected messages", path.display()));
        let errors = messages
            .lines()
            .filter(|line| line.starts_with("error"))
            .count();
        let warnings = messages
            .lines()
            .filter(|line| line.starts_with("warning"))
            .count();
        assert_eq!((errors, warnings), (mistakes, 0), "{}", path.display());
        // Only some machines have that source, and the message is another one without it.
        let is_quoted = messages.contains("$RUST/");
        assert!(!is_quoted, "{} quotes the standard library", path.display());
        files += 1;
    }
    assert!(files > 50, "only {files} files");
}
