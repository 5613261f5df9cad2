//! Inputs that the fuzzer has found and that are worth keeping break no rule.

use std::{fs, path::Path, thread};

/// Says which file it was, where one breaks a rule.
struct Tried(String);

impl Drop for Tried {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("it was {}", self.0);
        }
    }
}

fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let mut tried = 0;
    for entry in fs::read_dir(corpus.join(target)).expect("there is a corpus") {
        let path = entry.expect("it can be listed").path();
        let data = fs::read(&path).expect("it can be read");
        let _tried = Tried(path.display().to_string());
        run(&data);
        tried += 1;
    }
    assert!(tried > 10, "{tried} inputs for {target}");
}

#[test]
fn the_corpus_of_keys_breaks_no_rule() {
    replay("key", super::key);
}

#[cfg(feature = "redis")]
#[test]
fn the_corpora_of_what_servers_and_users_say_break_no_rule() {
    replay("hints", super::hints);
    replay("replies", super::replies);
    replay("url", super::url);
}
