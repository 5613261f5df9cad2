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

/// The words of a command as the protocol lists them: a script by its name, the keys of the lock and its owner by letters.
struct Words {
    key: LockKey,
    owner: OwnerId,
    config: RedisConfig,
}

impl Words {
    fn new() -> Self {
        Self {
            key: LockKey::new("k").unwrap(),
            owner: OwnerId::new(ClientId::new(&SystemRandom), 7),
            config: config("ns"),
        }
    }

    fn words(&self, command: &Command) -> String {
        let client = self.owner.client().to_string();
        let fence = format!("ns:fence:{{{:x}}}", slot::tag("k"));
        let mut words: Vec<_> = command
            .arguments()
            .map(|word| match str::from_utf8(word).unwrap() {
                "ns:{k}" => "L".to_owned(),
                "ns:{k}:q" => "Q".to_owned(),
                "ns:{k}:a" => "A".to_owned(),
                word if word == fence => "F".to_owned(),
                word if word == self.owner.to_string() => "O".to_owned(),
                word => word.replace(&client, "CLIENT"),
            })
            .collect();
        if let Some(script) = command.script {
            assert_eq!(words[..2], ["EVALSHA", &script.hash]);
            words.splice(..2, [script.name.to_owned()]);
            assert_eq!(command.slot(), slot::slot(b"k"));
        }
        words.join("|")
    }
}

/// Programs of other versions, and clients of other languages, send the same.
#[test]
fn each_script_has_the_keys_and_arguments_of_the_protocol() {
    const TTL: Duration = Duration::from_secs(30);
    const PERMIT: LockMode = LockMode::Permits(3);
    let shown = Words::new();
    let Words { key, owner, config } = &shown;
    let asks = AcquireRequest::new(key, *owner, TTL).label("svc");
    let waits = asks.queue(Queue::ForLease);
    let renews = RenewRequest::new(key, *owner, TTL);
    let releases = ReleaseRequest::new(key, *owner);
    let named = renews.label("svc").function("shop::settle");
    let alone = |mode| {
        let release = Command::release(config, &releases.mode(mode));
        release.of_the_lock_alone().expect("it is a release")
    };
    for (command, words) in [
        (
            Command::acquire(config, &asks),
            "acquire|4|L|Q|A|F|O|30000|0|svc",
        ),
        (
            Command::acquire(config, &waits),
            "acquire|4|L|Q|A|F|O|30000|3000|svc",
        ),
        (
            Command::acquire(config, &waits.function("shop::settle")),
            "acquire|4|L|Q|A|F|O|30000|3000|svc#shop::settle",
        ),
        (
            Command::acquire(config, &waits.mode(LockMode::Shared)),
            "acquire|4|L|Q|A|F|O|30000|3000|svc||+",
        ),
        (
            Command::acquire(config, &asks.mode(PERMIT)),
            "acquire|4|L|Q|A|F|O|30000|0|svc||+3",
        ),
        (
            Command::propose(config, &Proposal::new(asks, 17)),
            "acquire|4|L|Q|A|F|O|30000|0|svc|17",
        ),
        (
            Command::propose(
                config,
                &Proposal::new(asks.mode(LockMode::Shared), 17).notice(true),
            ),
            "acquire|4|L|Q|A|F|O|30000|-3000|svc|17|+",
        ),
        (Command::renew(config, &renews), "renew|1|L|O|30000"),
        (
            Command::renew(config, &named),
            "renew|1|L|O|30000|svc#shop::settle",
        ),
        (
            Command::renew(config, &renews.mode(LockMode::Shared)),
            "renew|1|L|O|30000||+",
        ),
        (
            Command::renew(config, &named.mode(PERMIT)),
            "renew|1|L|O|30000|svc#shop::settle|+3",
        ),
        (Command::release(config, &releases), "release|4|L|Q|A|F|O"),
        (
            Command::release(config, &releases.mode(PERMIT)),
            "release|4|L|Q|A|F|O|||+3",
        ),
        (alone(LockMode::Exclusive), "drop|1|L|O"),
        (alone(PERMIT), "drop|1|L|O|+3"),
        (
            Command::raise(config, &RaiseRequest::new(key, *owner, 7, 9)),
            "raise|2|L|F|O|7|9",
        ),
        #[cfg(feature = "admin")]
        (Command::inspect(config, key, 50), "inspect|4|L|Q|A|F|50"),
        #[cfg(feature = "admin")]
        (
            Command::unlock(config, key, *owner, "* 7", "digest"),
            "unlock|4|L|Q|A|F|O|* 7|digest",
        ),
    ] {
        assert_eq!(shown.words(&command), words);
        // With its text it is the same.
        let whole: Vec<_> = Command::plain(command.whole(), None)
            .arguments()
            .map(<[u8]>::to_vec)
            .collect();
        let script = command.script.expect("it is one");
        assert_eq!(whole[0], b"EVAL");
        assert_eq!(whole[1], script.source.as_bytes());
        let rest: Vec<_> = command.arguments().skip(2).collect();
        assert_eq!(whole[2..], rest, "{words}");
    }
    assert!(
        Command::acquire(config, &asks)
            .of_the_lock_alone()
            .is_none()
    );
    assert!(alone(PERMIT).of_the_lock_alone().is_none());
}

#[test]
fn a_command_without_a_script_goes_to_the_slot_of_its_key_or_of_the_lock() {
    let shown = Words::new();
    let Words { key, owner, config } = &shown;
    let client = owner.client();
    let record = slot::of_key(format!("ns:process:{{{client}}}").as_bytes());
    let untold = UnsentWakeUp {
        channel: b"ns:wake:x",
        message: b"x.1 7 k",
    };
    for (command, words, slot) in [
        (
            Command::write_presence(config, client, "a b c", Duration::from_secs(30)),
            "SET|ns:process:{CLIENT}|a b c|PX|30000",
            record,
        ),
        (
            Command::remove_presence(config, client),
            "DEL|ns:process:{CLIENT}",
            record,
        ),
        (
            Command::publish(11, untold),
            "PUBLISH|ns:wake:x|x.1 7 k",
            11,
        ),
        #[cfg(feature = "admin")]
        (
            Command::read_presence(config, client),
            "GET|ns:process:{CLIENT}",
            record,
        ),
        #[cfg(feature = "admin")]
        (
            Command::tell_holder(config, key, *owner),
            "PUBLISH|ns:wake:CLIENT|CLIENT.7 0 k",
            slot::slot(b"k"),
        ),
    ] {
        assert_eq!((&*shown.words(&command), command.slot()), (words, slot));
        assert_eq!(
            command.whole().get_packed_command(),
            command.cmd().get_packed_command()
        );
        assert!(command.of_the_lock_alone().is_none());
    }
    let _ = key;
    #[cfg(feature = "admin")]
    {
        let probe = Command::publish_in_script(config);
        let words: Vec<_> = probe.arguments().collect();
        assert_eq!(words[2..], [&b"1"[..], b"ns:{\x01probe}", b"ns:wake:probe"]);
        assert_eq!(probe.slot(), slot::slot(b"\x01probe"));
    }
}

/// The number of the line of a script that has this text.
fn line_of(script: &Script, text: &str) -> usize {
    let line = script.source.lines().position(|line| line.contains(text));
    line.expect("the script has it") + 1
}

fn explained(command: &Command, answer: &str) -> StoreError {
    let wire = format!("-{answer}\r\n");
    let error = redis::parse_redis_value(wire.as_bytes()).and_then(redis::Value::extract_error);
    command.explain(&error.expect_err("it is an error"), Duration::from_secs(1))
}

#[test]
fn a_refusal_names_the_command_the_script_and_the_key_to_look_at() {
    let shown = Words::new();
    let Words { key, owner, config } = &shown;
    let renew = Command::renew(config, &RenewRequest::new(key, *owner, ALIVE));
    let acquire = Command::acquire(config, &AcquireRequest::new(key, *owner, ALIVE));
    let publish = Command::publish(
        3,
        UnsentWakeUp {
            channel: b"c",
            message: b"m",
        },
    );
    let fence = format!("ns:fence:{{{:x}}}", slot::tag("k"));
    let getex = line_of(&RENEW, "'GETEX', lock)");
    let writes = line_of(&ACQUIRE, "redis.call('SET', fence, granted)");
    let queued = line_of(&ACQUIRE, "redis.call('ZSCORE', queue,");
    let of_fence = line_of(&ACQUIRE, "redis.call('GET', fence)");
    let held = line_of(&ACQUIRE, "redis.call('GET', lock)");
    let denied = "ERR ACL failure in script: User me has no permissions to run the command script: on @user_script:";
    let wrong = "WRONGTYPE Operation against a key script: 6d5d1b7a, on @user_script:";
    let unknown = "ERR Unknown Redis command called from script script: 6d5d1b7a, on @user_script:";
    for (command, answer, text) in [
        (
            &renew,
            format!("{denied}{getex}."),
            "user me has no permissions to run the command (`GETEX` in script `renew`, lock at `ns:{k}`)".to_owned(),
        ),
        (
            &renew,
            "NOPERM this user has no permissions to run the 'evalsha' command".to_owned(),
            "this user has no permissions to run the 'evalsha' command (script `renew`, lock at `ns:{k}`)".to_owned(),
        ),
        (
            &acquire,
            format!("{wrong}{held}."),
            "operation against a key (lock at `ns:{k}`)".to_owned(),
        ),
        (
            &acquire,
            "WRONGTYPE Operation against a key".to_owned(),
            "operation against a key (lock at `ns:{k}`)".to_owned(),
        ),
        (
            &acquire,
            format!("{wrong}{queued}."),
            "operation against a key (value at `ns:{k}:q`, lock at `ns:{k}`)".to_owned(),
        ),
        (
            &acquire,
            format!("{wrong}{of_fence}."),
            format!("operation against a key (value at `{fence}`, lock at `ns:{{k}}`)"),
        ),
        (
            &renew,
            format!("{unknown}{getex}."),
            "unknown Redis command called from script".to_owned(),
        ),
        (
            &acquire,
            format!("{unknown}{writes}."),
            errors::not_known("SET").message().to_owned(),
        ),
        (
            &publish,
            "NOPERM this user has no permissions to run the 'publish' command".to_owned(),
            "this user has no permissions to run the 'publish' command (`PUBLISH`)".to_owned(),
        ),
        (
            &publish,
            "WRONGTYPE Operation against a key".to_owned(),
            "operation against a key".to_owned(),
        ),
        (
            &renew,
            "READONLY You can't write against a read only replica.".to_owned(),
            "you can't write against a read only replica".to_owned(),
        ),
    ] {
        assert_eq!(explained(command, &answer).message(), text, "{answer}");
    }
}
