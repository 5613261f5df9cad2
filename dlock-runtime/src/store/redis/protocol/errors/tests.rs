//! Tests of the kinds of error for the answers of servers.

use StoreErrorKind as Kind;
use redis::Value;

use super::*;

fn error(line: &str) -> RedisError {
    redis::parse_redis_value(format!("-{line}\r\n").as_bytes())
        .and_then(Value::extract_error)
        .expect_err("the line is an error")
}

fn sorted(line: &str) -> (StoreErrorKind, String) {
    let error = of_request(&error(line), Duration::from_secs(1));
    let text = error.to_string();
    (
        error.kind(),
        text.split(';').next().unwrap_or_default().to_owned(),
    )
}

/// Answers of servers, the kind that each becomes, and its text.
const ANSWERS: &[(&str, Kind, &str)] = &[
    (
        "READONLY You can't write against a read only replica.",
        Kind::ReadOnly,
        "you can't write against a read only replica",
    ),
    (
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        Kind::ReadOnly,
        "link with MASTER is down and replica-serve-stale-data is set to 'no'",
    ),
    (
        "LOADING Redis is loading the dataset in memory",
        Kind::Loading,
        "redis is loading the dataset in memory",
    ),
    (
        "OOM command not allowed when used memory > 'maxmemory'. script: \
             6d5d1b7a8c9b9fbb6ee1a0d1c9d1ffb0a5a5f2c1, on @user_script:12.",
        Kind::OutOfMemory,
        "command not allowed when used memory > 'maxmemory'",
    ),
    (
        "MISCONF Redis is configured to save RDB snapshots.",
        Kind::Refused,
        "MISCONF redis is configured to save RDB snapshots",
    ),
    (
        "ERR max number of clients reached",
        Kind::Refused,
        "max number of clients reached",
    ),
    (
        "ERR The user executing the script can't run this command or subcommand script: \
             6d5d1b7a8c9b9fbb6ee1a0d1c9d1ffb0a5a5f2c1, on @user_script:12.",
        Kind::Denied,
        "the user executing the script can't run this command or subcommand",
    ),
    (
        "ERR ACL failure in script: User me has no permissions to run the 'getex' command \
             script: on @user_script:12.",
        Kind::Denied,
        "user me has no permissions to run the 'getex' command",
    ),
    (
        "NOPERM this user has no permissions to run the 'evalsha' command",
        Kind::Denied,
        "this user has no permissions to run the 'evalsha' command",
    ),
    (
        "ERR this user has no permissions to run the 'select' command",
        Kind::Denied,
        "this user has no permissions to run the 'select' command",
    ),
    (
        "NOAUTH HELLO must be called",
        Kind::Unauthenticated,
        "the server requires a password",
    ),
    (
        "WRONGPASS invalid username-password pair or user is disabled.",
        Kind::Unauthenticated,
        "invalid username-password pair or user is disabled",
    ),
    (
        "ERR invalid username-password pair",
        Kind::Unauthenticated,
        "invalid username-password pair",
    ),
    (
        "ERR AUTH <password> called without any password configured for the default user.",
        Kind::Unauthenticated,
        "the URL has a password, but the server's default user has none",
    ),
    (
        "TRYAGAIN Multiple keys request",
        Kind::Refused,
        "TRYAGAIN multiple keys request",
    ),
    ("CLUSTERDOWN", Kind::Refused, "CLUSTERDOWN"),
    (
        "ERR Could not find scripting engine 'lua'",
        Kind::Unsupported,
        "could not find scripting engine 'lua'",
    ),
    (
        "MOVED 3999 127.0.0.1:6381",
        Kind::Unsupported,
        "the server is a node of a Redis Cluster",
    ),
    (
        "ERR This instance has cluster support disabled",
        Kind::Unsupported,
        "the server is not in cluster mode",
    ),
    (
        "ERR DB index is out of range",
        Kind::Unsupported,
        "DB index is out of range",
    ),
    (
        "WRONGPASS the password is too old",
        Kind::Unauthenticated,
        "the password is too old",
    ),
    (
        "DENIED Redis is running in protected mode",
        Kind::Refused,
        "the server is in protected mode and accepts only local connections",
    ),
    ("ERR no such script: x", Kind::Refused, "no such script: x"),
    (
        "unsupported protocol version",
        Kind::Refused,
        "unsupported protocol version",
    ),
];

#[test]
fn answers_are_sorted() {
    for &(line, kind, text) in ANSWERS {
        assert_eq!(sorted(line), (kind, text.to_owned()), "{line}");
    }
}

#[test]
fn failures_of_scripts_are_unwrapped() {
    use StoreErrorKind as Kind;
    const WRAPPED: &str = "ERR Error running script (call to f_6d5d1b7a): @user_script:12: ";
    for (inner, kind) in [
        ("WRONGTYPE Operation against a key", Kind::WrongType),
        ("-OOM command not allowed", Kind::OutOfMemory),
        ("-READONLY You can't write", Kind::ReadOnly),
        // The form of Redis 6.2.
        (
            "@user_script: 12: -OOM command not allowed",
            Kind::OutOfMemory,
        ),
        (
            "@user_script: 12: -READONLY You can't write",
            Kind::ReadOnly,
        ),
        (
            "@user_script: 12: -NOREPLICAS Not enough good replicas to write",
            Kind::Refused,
        ),
        (
            "@user_script: 12: The user executing the script can't run this command",
            Kind::Denied,
        ),
        (
            "@user_script: 12: Unknown Redis command called from Lua script",
            Kind::Unsupported,
        ),
        (
            "@user_script: The user executing the script can't run this command",
            Kind::Denied,
        ),
        ("DB index is out of range", Kind::Unsupported),
        (
            "The user executing the script can't run this command",
            Kind::Denied,
        ),
    ] {
        let line = format!("{WRAPPED}{inner}");
        assert_eq!(sorted(&line).0, kind, "{line}");
        let text = sorted(&line).1;
        assert!(!text.contains("script (") && !text.contains("12"), "{text}");
        assert_eq!(script_line(&error(&line)), Some(12));
    }
    assert_eq!(sorted("ERR Error running script").0, Kind::Refused);
}

/// Before the first write, or possibly after it.
#[test]
fn what_has_certainly_done_nothing_is_known() {
    const IN_SCRIPT: &str =
        " script: 6d5d1b7a8c9b9fbb6ee1a0d1c9d1ffb0a5a5f2c1, on @user_script:12.";
    const WRAPPED: &str = "ERR Error running script (call to f_6d5d1b7a): @user_script:12: ";
    // `true` if the request certainly had no effect: as the answer to a whole command, and inside a script.
    for (line, whole, inside) in [
        (
            "NOPERM User me has no permissions to run the 'evalsha' command",
            true,
            false,
        ),
        (
            "MISCONF Redis is configured to save RDB snapshots",
            true,
            true,
        ),
        ("NOREPLICAS Not enough good replicas to write.", true, true),
        (
            "OOM command not allowed when used memory > 'maxmemory'",
            true,
            true,
        ),
        (
            "READONLY You can't write against a read only replica.",
            true,
            true,
        ),
        ("BUSY Redis is busy running a script.", true, false),
        ("CLUSTERDOWN The cluster is down", true, false),
        (
            "TRYAGAIN Multiple keys request during rehashing of slot",
            true,
            false,
        ),
        ("ERR max number of clients reached", true, false),
        ("ERR something unknown", false, false),
        ("UNKNOWN something unknown", false, false),
        (
            "ERR The user executing the script can't run this command or subcommand",
            false,
            false,
        ),
    ] {
        let left_nothing =
            |line: &str| of_request(&error(line), Duration::from_secs(1)).left_nothing();
        assert_eq!(left_nothing(line), whole, "{line}");
        assert_eq!(
            left_nothing(&format!("{line}{IN_SCRIPT}")),
            inside,
            "{line}, inside"
        );
        // The form of Redis 6.2.
        let wrapped = format!("{WRAPPED}@user_script: 12: -{line}");
        assert_eq!(left_nothing(&wrapped), inside, "{wrapped}");
    }
    for line in [
        "ERR ACL failure in script: User me has no permissions to run the 'set' command script: x",
        "ERR Error running script",
        "ERR Error running script: Script killed by user with SCRIPT KILL...",
    ] {
        let error = of_request(&error(line), Duration::from_secs(1));
        assert!(!error.left_nothing(), "{line}");
    }
}

#[test]
fn a_password_among_the_arguments_is_not_repeated() {
    let (kind, text) =
        sorted("ERR unknown command 'HI', with args beginning with: '3' 'AUTH' 'default' 's3cret'");
    assert_eq!(kind, StoreErrorKind::Unsupported);
    assert_eq!(text, "unknown command 'HI'");
}

#[test]
fn a_command_that_every_version_has_is_no_question_of_the_version() {
    for line in [
        "ERR unknown command 'EVALSHA', with args beginning with: 'abc' '0' ",
        "ERR unknown command `evalsha`, with args beginning with: `abc`, `0`, ",
        "ERR unknown command 'EVALSHA'",
        "unsupported command 'EVALSHA'",
    ] {
        let error = of_request(&error(line), Duration::from_secs(1));
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.starts_with("unknown command 'EVALSHA': "), "{text}");
        assert!(
            text.contains("rename-command") && !text.contains("6.2"),
            "{text}"
        );
    }
    // A command that came with Redis 6.2.
    let old = error("ERR unknown command 'GETEX', with args beginning with: 'k' ");
    let text = of_request(&old, Duration::from_secs(1)).to_string();
    assert!(text.contains("6.2"), "{text}");
}

#[test]
fn a_server_without_hello_may_know_resp2() {
    for line in [
        "ERR unknown command 'HELLO', with args beginning with: '3'",
        "ERR unknown command `hello`, with args beginning with: `3`",
        "unsupported command 'hello'",
    ] {
        let error = of_login(&error(line), Duration::from_secs(1), 0);
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        assert!(error.message().contains("`?protocol=resp2`"), "{error}");
    }
}

#[test]
fn failures_of_connections_are_sorted() {
    let limit = Duration::from_millis(250);
    let timeout = RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
    assert_eq!(of_request(&timeout, limit), StoreError::timed_out(limit));
    let broken = RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe));
    assert_eq!(
        of_request(&broken, limit).kind(),
        StoreErrorKind::Disconnected
    );
    let refused = io::Error::from_raw_os_error(111);
    let text = of_connect("redis://127.0.0.1:6379", &refused).to_string();
    assert!(
        text.starts_with("cannot connect to redis://127.0.0.1:6379: connection refused;"),
        "{text}"
    );
}

/// In RESP3, an error has a length, and may contain characters that a line cannot.
#[test]
fn what_a_server_says_fits_into_a_line_of_a_log() {
    let of_bulk = |text: &str| {
        let wire = format!("!{}\r\n{text}\r\n", text.len());
        let error = redis::parse_redis_value(wire.as_bytes()).and_then(Value::extract_error);
        of_request(&error.expect_err("it is an error"), Duration::from_secs(1))
    };
    let error = of_bulk("ERR a\r\n2026-01-01 INFO all is well\u{1b}[2J");
    assert_eq!(error.message(), "a  2026-01-01 INFO all is well [2J");
    for text in [
        "x".repeat(1_000_000),
        format!("ERR {}", "é ".repeat(500_000)),
    ] {
        let error = of_bulk(&text);
        assert!(error.message().chars().count() < 2 * LONGEST_QUOTE);
    }
}

/// The whole text of each failure that is found out on the way to a server.
#[test]
fn failures_say_what_happened_and_what_to_do() {
    let limit = Duration::from_millis(1500);
    let cause = StoreError::new(
        Kind::Unreachable,
        "cannot connect to a:1: connection refused",
    );
    let other = StoreError::new(Kind::Loading, "redis is loading");
    let expected = "check whether the server is stopped, paused by `CLIENT PAUSE` or busy with a long command, and whether a \
                    proxy in front of it still reaches it";
    for (error, kind, text) in [
        (no_runtime("no tokio runtime"), Kind::NoRuntime, "no tokio runtime".to_owned()),
        (
            of_connect("a:1", &io::Error::other("Host is down (os error 112)")),
            Kind::Unreachable,
            "cannot connect to a:1: host is down".to_owned(),
        ),
        (
            silent("a:1", limit),
            Kind::Unreachable,
            format!("cannot connect to a:1: it accepts connections, but gave no answer within 2s; {expected}"),
        ),
        (
            silenced("a:1", limit),
            Kind::Unreachable,
            format!("no connection to a:1 within 2s, after it stopped answering; {expected}"),
        ),
        (
            given_up("a:1", limit, &cause),
            Kind::Unreachable,
            "cannot connect to a:1 within 1.5s: connection refused".to_owned(),
        ),
        (
            given_up("a:1", limit, &other),
            Kind::Loading,
            "cannot connect to a:1 within 1.5s: redis is loading".to_owned(),
        ),
        (
            in_a_cluster(),
            Kind::Unsupported,
            "the server is a node of a Redis Cluster; write `redis-cluster://` in the URL".to_owned(),
        ),
        (
            in_no_cluster(),
            Kind::Unsupported,
            "the server is not in cluster mode; write `redis://` in the URL".to_owned(),
        ),
        (
            too_old("it is Redis 5"),
            Kind::Unsupported,
            "the server is too old: it is Redis 5; use Redis 6.2 or later, or Valkey".to_owned(),
        ),
        (
            of_login(&error("ERR DB index is out of range"), limit, 77),
            Kind::Unsupported,
            "the server has no database 77 (DB index is out of range); set another number at the end of the URL, or \
             raise `databases` in the server's configuration"
                .to_owned(),
        ),
        (
            of_login(&error("ERR invalid DB index"), limit, 77),
            Kind::Unsupported,
            "the server has no database 77 (invalid DB index); set another number at the end of the URL, or \
             raise `databases` in the server's configuration"
                .to_owned(),
        ),
        (
            of_login(&error("ERR value is out of range, it must be an integer"), limit, 77),
            Kind::Unsupported,
            "the server has no database 77 (value is out of range, it must be an integer); set another number at the \
             end of the URL, or raise `databases` in the server's configuration"
                .to_owned(),
        ),
        (
            of_login(&error("NOPERM this user has no permissions to run the 'hello' command"), limit, 0),
            Kind::Denied,
            "this user has no permissions to run the 'hello' command".to_owned(),
        ),
        (
            of_request(&RedisError::from((ErrorKind::RESP3NotSupported, "no RESP3")), limit),
            Kind::Unsupported,
            NO_HELLO.to_owned(),
        ),
        (
            of_login(&error("ERR unknown command 'AUTH', with args beginning with: 'x'"), limit, 0),
            Kind::Unsupported,
            "unknown command 'AUTH'".to_owned(),
        ),
        (
            of_request(&error("NOREPLICAS Not enough good replicas to write."), limit),
            Kind::Refused,
            "NOREPLICAS not enough good replicas to write: its setting `min-replicas-to-write` needs more than answer"
                .to_owned(),
        ),
    ] {
        assert_eq!((error.kind(), error.message()), (kind, &*text));
    }
    let proxy = closed_by_a_proxy();
    assert_eq!(proxy.kind(), Kind::Unsupported);
    assert!(proxy.message().contains("twemproxy"), "{proxy}");
}

/// What is tried on a new connection may be refused for a while, as by a server that has no memory.
#[test]
fn only_a_refusal_that_stays_ends_a_connection() {
    let limit = Duration::from_secs(1);
    let answer = |line: &str| redis::parse_redis_value(format!("{line}\r\n").as_bytes()).unwrap();
    let refused = |line: &str| refused_for_good("EVALSHA", answer(line), limit);
    for passing in [
        "+OK",
        ":1",
        "-NOSCRIPT No matching script",
        "-OOM command not allowed when used memory > 'maxmemory'",
        "-LOADING Redis is loading the dataset in memory",
    ] {
        assert_eq!(refused(passing), Ok(()), "{passing}");
    }
    let denied = refused("-NOPERM this user has no permissions to run the 'evalsha' command");
    let denied = denied.expect_err("it stays");
    assert_eq!(denied.kind(), Kind::Denied);
    let text =
        "this user has no permissions to run the 'evalsha' command (`EVALSHA`, rule `+evalsha`)";
    assert_eq!(denied.message(), text);
    let unknown = refused("-ERR unknown command 'EVALSHA', with args beginning with: 'x'");
    assert_eq!(unknown.expect_err("it stays"), not_known("EVALSHA"));
}

#[test]
fn the_last_line_that_a_server_names_is_its_own() {
    for (text, line) in [
        ("ERR a script: x, on @user_script:12.", Some(12)),
        (
            "ERR Error running script: @user_script:3: @user_script: 7: b",
            Some(3),
        ),
        ("ERR a @user_script:3 b user_script:45:", Some(45)),
        ("ERR a user_script: b", None),
        ("ERR a", None),
    ] {
        assert_eq!(script_line(&error(text)), line, "{text}");
    }
}
