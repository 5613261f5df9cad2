//! Tests of the arguments of each command, and of the values on which scripts and code have to agree.

use super::*;
use crate::{
    random::SystemRandom,
    store::{GRANT_TTL, redis::protocol::slot},
};

fn config(namespace: &str) -> RedisConfig {
    RedisConfig {
        namespace: namespace.to_owned(),
        ..RedisConfig::new("redis://localhost")
    }
}

#[test]
fn a_raw_key_is_the_keys_own_text_and_has_a_queue_of_its_own() {
    let key = LockKey::new("order 7").unwrap();
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 7);
    let with_raw_keys = RedisConfig {
        raw_keys: true,
        ..config("dlock")
    };
    let words = |config: &RedisConfig| {
        let command = Command::release(config, &ReleaseRequest::new(&key, owner));
        let words = command
            .arguments()
            .map(|word| String::from_utf8_lossy(word).into_owned());
        words.collect::<Vec<_>>()
    };
    let (raw, plain) = (words(&with_raw_keys), words(&config("dlock")));
    assert_eq!(
        raw[3..6],
        ["order 7", "dlock:{order 7}:rq", "dlock:{order 7}:ra"]
    );
    assert_eq!((&raw[..3], &raw[6..]), (&plain[..3], &plain[6..]));
    // The part of each key that the server hashes, by the rule for braces.
    let hashed = |word: &str| match word.split_once('{').map(|(_, rest)| rest.split_once('}')) {
        Some(Some((tag, _))) if !tag.is_empty() => slot::slot(tag.as_bytes()),
        _ => slot::slot(word.as_bytes()),
    };
    let slots: Vec<_> = raw[3..7].iter().map(|word| hashed(word)).collect();
    assert_eq!(slots, [slots[0]; 4]);
}

#[test]
fn a_locks_keys_share_its_slot() {
    let key = LockKey::new("order 7").unwrap();
    let owner = ClientId::new(&SystemRandom);
    let command = Command::release(
        &config("dlock"),
        &ReleaseRequest::new(&key, OwnerId::new(owner, 7)),
    );
    let words: Vec<_> = command.arguments().map(String::from_utf8_lossy).collect();
    assert_eq!(
        words[2..6],
        [
            "4",
            "dlock:{order 7}",
            "dlock:{order 7}:q",
            "dlock:{order 7}:a"
        ]
    );
    assert!(words[6].starts_with("dlock:fence:{"), "{}", words[6]);
    assert_eq!(words[7..], [format!("{owner}.7")]);
    assert_eq!(
        names::channel("ns", owner),
        format!("{}{owner}", names::channel_prefix("ns"))
    );
    assert!(names::probe_channel("ns").starts_with(&names::channel_prefix("ns")));
}

#[test]
fn a_label_is_one_word_or_none() {
    let key = LockKey::new("k").unwrap();
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    for (label, written) in [
        ("a@b/1", "a@b/1"),
        ("a b\n\u{e9}", "a_b__"),
        ("", label::NO_LABEL),
    ] {
        let asks = AcquireRequest::new(&key, owner, ALIVE).label(label);
        let command = Command::acquire(&config("ns"), &asks);
        assert_eq!(command.arguments().last(), Some(written.as_bytes()));
    }
    let renewal = |label| RenewRequest::new(&key, owner, ALIVE).label(label);
    let count = |label| {
        Command::renew(&config("ns"), &renewal(label))
            .arguments()
            .count()
    };
    assert_eq!((count(""), count("x y")), (6, 7));
}

#[test]
fn a_grant_lasts_as_long_as_waiters_believe() {
    let lasts = format!(" = {}", GRANT_TTL.as_millis());
    let names = [
        (&*ACQUIRE, "local grant_ttl"),
        (&*ACQUIRE, "local grant_lease"),
        (&*RELEASE, "local grant_ttl"),
        (&*RELEASE, "local grant_lease"),
    ];
    for (script, name) in names {
        let line = format!("{name}{lasts}\n");
        assert!(script.source.contains(&line), "{}: {line}", script.name);
    }
}

#[test]
fn times_are_never_zero() {
    assert_eq!(milliseconds(Duration::ZERO), 1);
    assert_eq!(milliseconds(Duration::from_micros(1999)), 1);
    assert_eq!(milliseconds(Duration::MAX), 1 << 40);
}

#[test]
fn a_line_of_a_script_names_its_command() {
    let line = ACQUIRE
        .source
        .lines()
        .position(|line| line.contains("redis.call('GET', lock"));
    assert_eq!(ACQUIRE.command(line.unwrap() + 1), Some("GET"));
    assert_eq!(ACQUIRE.command(0), None);
    assert_eq!(ACQUIRE.command(10_000), None);
}
