//! What the attribute reads as text, beside what the runtime makes of it, and every text that a fuzzer has kept.

use std::{fs, path::Path, thread};

use dlock::{InvalidKeyReason, LockError, LockKey, MAX_TTL, MIN_TTL};
use dlock_tests::{TTLS, faults, fuzzing};

/// The runtime must accept the macro's `100ms` and `24h`, and the macro must not refuse a value that the
/// runtime accepts.
#[test]
fn the_runtime_has_the_same_bounds() {
    assert_eq!(TTLS, [MIN_TTL, MAX_TTL]);
}

/// A template that the macro accepts and the runtime refuses would fail in every call. A delimiter that can
/// occur in values would let different calls share a lock.
#[test]
fn the_runtime_draws_the_same_line() {
    for char in ('\0'..='\x7f').chain(['\u{80}', 'é', '日']) {
        let written = match char {
            '<' | '>' => char.to_string().repeat(2),
            _ => char.to_string(),
        };
        let faults = faults(&format!("<a>{written}<b>"));
        let key = LockKey::builder().part(&1).text(&char.to_string()).part(&2);
        let key = key.build();
        assert_eq!(faults.is_empty(), key.is_ok(), "{char:?}: {key:?}");

        let undelimited = matches!(
            key,
            Err(LockError::InvalidKey {
                reason: InvalidKeyReason::Undelimited,
                ..
            })
        );
        let run_together = faults.iter().any(|fault| fault.contains("run together"));
        assert_eq!(run_together, undelimited, "{char:?}: {key:?}");
    }
}

/// Reports the file whose content violates a rule.
struct Tried(String);

impl Drop for Tried {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("it was {}", self.0);
        }
    }
}

fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut tried = 0;
    for entry in fs::read_dir(corpus.join(target)).unwrap() {
        let path = entry.unwrap().path();
        let data = fs::read(&path).unwrap();
        let _tried = Tried(path.display().to_string());
        run(&data);
        tried += 1;
    }
    assert!(tried > 10, "{tried} inputs for {target}");
}

#[test]
fn the_corpus_of_templates_breaks_no_rule() {
    replay("template", fuzzing::template);
}

#[test]
fn the_corpus_of_durations_breaks_no_rule() {
    replay("duration", fuzzing::duration);
}
