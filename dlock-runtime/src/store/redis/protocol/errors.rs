//! Classifies and describes failures of servers and connections.
//!
//! Codes alone are not sufficient: inside a script a missing permission is an `ERR`, and older servers wrap
//! every failure of a script into one. The beginnings of the texts are therefore compared too.

#[cfg(test)]
mod tests;

use std::{fmt::Display, io, time::Duration};

use redis::{Arg, Cmd, ErrorKind, RedisError};

use crate::store::{StoreError, StoreErrorKind};

pub(crate) const BROKEN: &str = "the connection to the server broke";

/// The words of newer servers inside a script in place of `NOPERM`.
const ACL_IN_SCRIPT: &str = "ACL failure in script: ";

/// The answers of servers to the number of a database they do not have; the last to one that is not
/// even within the limits of an integer, of which a login holds no other.
const NO_SUCH_DATABASE: [&str; 3] = [
    "DB index is out of range",
    "invalid DB index",
    "value is out of range",
];

/// In characters; real answers are shorter.
const LONGEST_QUOTE: usize = 300;

/// The usual causes of silence of a server that accepts connections.
const CHECK_SILENCE: &str = "check whether it is stopped, paused by `CLIENT PAUSE` or busy with a long \
                             command, and whether a proxy before it still has it";

/// Commands that are sent as they are, and that no lock works without where they are sent at all.
const NEEDED: [&str; 5] = ["EVALSHA", "EVAL", "SUBSCRIBE", "ASKING", "WAIT"];

const NO_HELLO: &str = "the server does not know `HELLO 3`: if it is Redis 6.2 or later behind a \
                        proxy, write `?protocol=resp2` at the end of the URL";

/// There is no tokio runtime to send a request, or to keep a connection.
pub(crate) fn no_runtime(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::NoRuntime, message)
}

/// A failure of one request; `limit` is how long its answer was waited for.
pub(crate) fn of_request(error: &RedisError, limit: Duration) -> StoreError {
    if error.is_timeout() {
        return StoreError::timed_out(limit);
    }
    match error.kind() {
        ErrorKind::Io => StoreError::new(StoreErrorKind::Disconnected, BROKEN),
        ErrorKind::RESP3NotSupported => no_hello(),
        ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::AuthenticationFailed => of_server(
            error.code().unwrap_or_default(),
            error.detail().unwrap_or_default(),
        ),
        // The library's own words may quote its input.
        _ => bad_answer("what the server sent is not the Redis protocol"),
    }
}

/// A failure of a command that is no script.
pub(crate) fn of_command(command: &Cmd, error: &RedisError, limit: Duration) -> StoreError {
    let sorted = of_request(error, limit);
    let name = match command.args_iter().next() {
        Some(Arg::Simple(name)) => String::from_utf8_lossy(name),
        _ => return sorted,
    };
    match sorted.kind() {
        StoreErrorKind::Denied | StoreErrorKind::Unsupported | StoreErrorKind::Refused => {
            sorted.reworded(|message| format!("{message} (`{name}`)"))
        }
        _ => sorted,
    }
}

/// A failure of the login, which ends with the choice of the database.
pub(crate) fn of_login(error: &RedisError, limit: Duration, database: i64) -> StoreError {
    let sorted = of_request(error, limit);
    let message = sorted.message();
    let is_no_database = NO_SUCH_DATABASE
        .iter()
        .any(|text| message.starts_with(text));
    if is_no_database {
        let message = format!(
            "the server has no database {database} ({message}): put the number of another one at the end of \
             the URL, or raise `databases` in its configuration"
        );
        return unsupported(message).with_advice();
    }
    // Its whole text is about the command, whose arguments are left out.
    let is_unknown = sorted.kind() == StoreErrorKind::Unsupported;
    if is_unknown && message.to_ascii_lowercase().contains("hello") {
        return no_hello();
    }
    sorted
}

/// A connection that could not be opened.
pub(crate) fn of_connect(address: impl Display, error: &io::Error) -> StoreError {
    let text = error.to_string();
    // The number says nothing that the words do not.
    let words = text.split(" (os error").next().unwrap_or_default();
    StoreError::new(
        StoreErrorKind::Unreachable,
        cannot_connect(address, lower_first(words)),
    )
}

/// The failure of one attempt in words.
pub(crate) fn cannot_connect(address: impl Display, cause: impl Display) -> String {
    format!("cannot connect to {address}: {cause}")
}

/// A server that accepted a connection, and has not answered on it within `limit`.
pub(crate) fn silent(address: impl Display, limit: Duration) -> StoreError {
    let cause = format!(
        "it accepts connections, but there was no answer within {limit:.0?}; {CHECK_SILENCE}"
    );
    let message = cannot_connect(address, cause);
    StoreError::new(StoreErrorKind::Unreachable, message).with_advice()
}

/// There is no connection for a request, as the last one was given up for want of an answer.
pub(crate) fn silenced(address: &str, limit: Duration) -> StoreError {
    let message = format!(
        "no connection to {address} within {limit:.0?}, after it had stopped to answer; {CHECK_SILENCE}"
    );
    StoreError::new(StoreErrorKind::Unreachable, message).with_advice()
}

/// The error when no attempt has succeeded for all of `limit`, by the failure of the last.
pub(crate) fn given_up(address: &str, limit: Duration, last: &StoreError) -> StoreError {
    let attempt = cannot_connect(address, "");
    last.reworded(|message| {
        let cause = message.strip_prefix(&attempt).unwrap_or(message);
        // As it was set, not rounded: one looks for that number in the configuration.
        format!("cannot connect to {address} for {limit:?}: {cause}")
    })
}

pub(crate) fn bad_answer(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::BadAnswer, message)
}

pub(crate) fn unsupported(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, message)
}

fn no_hello() -> StoreError {
    unsupported(NO_HELLO).with_advice()
}

/// One server was to be locked on, and it is only a part of several.
pub(crate) fn in_a_cluster() -> StoreError {
    unsupported("the server is a node of a Redis Cluster: write `redis-cluster://` in the URL")
        .with_advice()
}

/// It was to be a node of a cluster, and is not.
pub(crate) fn in_no_cluster() -> StoreError {
    unsupported("the server is not in cluster mode: write `redis://` in the URL").with_advice()
}

pub(crate) fn too_old(what: &str) -> StoreError {
    unsupported(format!(
        "the server is too old, {what}: use Redis 6.2 or later, or Valkey"
    ))
    .with_advice()
}

/// The line of a script that failed, as far as the server tells.
pub(crate) fn script_line(error: &RedisError) -> Option<usize> {
    // Some mentions have no number; of several with one, the last is the server's own.
    error.detail()?.rsplit("user_script:").find_map(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

fn of_server(code: &str, detail: &str) -> StoreError {
    let did_nothing = did_nothing(code, detail);
    let sorted = sorted(code, detail);
    if did_nothing {
        return sorted.without_effect();
    }
    sorted
}

/// `true` if the server has refused a request before it wrote anything.
///
/// A request whose error is not in this table may have been carried out in part: a server does not
/// take back the writes of a script that fails later. Redis 6.2 to 8 and Valkey 7.2 to 9 answer
///
/// | code | of the whole command | inside a script |
/// |---|---|---|
/// | `NOPERM` | before it runs | never under this code; as an `ERR`, perhaps after a write |
/// | `MISCONF`, `NOREPLICAS` | before it runs | at the first write: it is of every writing command, and since 7.0 later ones are not checked; in 6.2 what is checked does not change while a script runs |
/// | `OOM` | before it runs | at the first write, since a script that has written is let go on |
/// | `READONLY`, `MASTERDOWN`, `LOADING` | before it runs | at the first write, as `MISCONF` |
/// | `BUSY` | before it runs: the script of another client does | never |
/// | `CLUSTERDOWN`, `TRYAGAIN`, `MOVED`, `ASK` | before it runs: there is no node to run it | perhaps after a write, if a slot goes meanwhile |
/// | `NOAUTH`, `DENIED`, too many clients | before it runs | never |
///
/// The first write of each of our scripts is one that all these are checked of. The fence comes before the
/// lock in `acquire.lua` and `raise.lua`, both are written by `SET`; a queue is cleared of the dead by
/// `ZREM`, which a server out of memory allows, and after that it refuses nothing for want of memory.
/// `release.lua` calls nothing that can fail after its first write but by `pcall`, `DEL` apart.
fn did_nothing(code: &str, detail: &str) -> bool {
    let is_in_script = detail.contains("user_script")
        || detail.starts_with("Error running script")
        || detail.starts_with(ACL_IN_SCRIPT);
    let (code, detail) = unwrapped(code, detail);
    match code {
        "MISCONF" | "NOREPLICAS" | "OOM" | "READONLY" | "MASTERDOWN" | "LOADING" => true,
        "NOPERM" | "BUSY" | "CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK" | "NOAUTH" | "DENIED" => {
            !is_in_script
        }
        "ERR" => !is_in_script && detail.starts_with("max number of clients"),
        _ => false,
    }
}

fn sorted(code: &str, detail: &str) -> StoreError {
    use StoreErrorKind as Kind;

    let (code, detail) = unwrapped(code, detail);
    let detail = without_noise(detail);
    let kind = match code {
        "READONLY" | "MASTERDOWN" => Kind::ReadOnly,
        "LOADING" => Kind::Loading,
        "OOM" => Kind::OutOfMemory,
        "WRONGTYPE" => Kind::WrongType,
        "NOPERM" => Kind::Denied,
        "NOAUTH" => {
            return StoreError::new(Kind::Unauthenticated, "the server asks for a password");
        }
        "WRONGPASS" => Kind::Unauthenticated,
        // A store in a cluster goes where these point, and never reads them here.
        "MOVED" | "ASK" => return in_a_cluster(),
        _ if detail.contains("cluster support disabled") => return in_no_cluster(),
        "DENIED" => {
            return StoreError::new(
                Kind::Refused,
                "the server is in protected mode and serves its own machine only",
            );
        }
        _ if detail.contains("invalid username-password pair") => Kind::Unauthenticated,
        _ if detail.contains("without any password configured") => {
            return StoreError::new(
                Kind::Unauthenticated,
                "the URL has a password, but the server's default user has none",
            );
        }
        _ if detail.starts_with("The user executing the script can't")
            || detail.starts_with(ACL_IN_SCRIPT)
            // The library drops the code of what answers the choice of a database.
            || detail.contains("has no permissions to run") =>
        {
            Kind::Denied
        }
        _ if detail.starts_with("unknown command")
            || detail.starts_with("Unknown Redis command")
            // A Valkey whose Lua is a module that was not loaded.
            || detail.starts_with("Could not find scripting engine")
            || detail.starts_with("DB index is out of range") =>
        {
            Kind::Unsupported
        }
        // MISCONF, NOREPLICAS, BUSY, TRYAGAIN, CLUSTERDOWN, too many clients, and whatever else
        // a server may say: it has not done what it was asked, and may do it later.
        _ => Kind::Refused,
    };
    if kind == Kind::Unsupported
        && let Some(command) = unknown_command(detail)
    {
        return not_known(command);
    }
    let text = lower_first(&quoted(detail.trim_start_matches(ACL_IN_SCRIPT)));
    if text.is_empty() || kind == Kind::Refused && code != "ERR" {
        // Short codes can be looked up.
        let text = format!("{} {text}", quoted(code));
        return StoreError::new(kind, text.trim_end());
    }
    StoreError::new(kind, text)
}

/// The command that the server says it does not know, if every version has it and locks need it.
fn unknown_command(detail: &str) -> Option<&str> {
    let name = detail.strip_prefix("unknown command")?;
    let name = name.trim_matches([' ', '\'', '`', ',', '"']);
    NEEDED.into_iter().find(|it| it.eq_ignore_ascii_case(name))
}

/// A command of that name is in every version that will do, and this server does not know it.
pub(crate) fn not_known(command: &str) -> StoreError {
    unsupported(format!(
        "unknown command '{command}': the server has it under another name or not at all \
         (`rename-command`), or a proxy before it does not pass it on, and dlock needs it"
    ))
    .with_advice()
}

/// A command that no lock works without, and that was tried on a new connection: what it was refused with,
/// if it was refused for good.
pub(crate) fn refused_for_good(
    command: &str,
    answer: redis::Value,
    limit: Duration,
) -> Result<(), StoreError> {
    let Err(error) = answer.extract_error() else {
        return Ok(());
    };
    let error = of_request(&error, limit);
    match error.kind() {
        StoreErrorKind::Denied => {
            let rule = command.to_ascii_lowercase();
            let message = format!("{} (`{command}`, so `+{rule}`)", error.message());
            Err(StoreError::new(StoreErrorKind::Denied, message))
        }
        StoreErrorKind::Unsupported => Err(error),
        _ => Ok(()),
    }
}

/// The failure inside a script, where the server wraps that in an `ERR` of its own.
fn unwrapped<'a>(code: &'a str, detail: &'a str) -> (&'a str, &'a str) {
    if code != "ERR" || !detail.starts_with("Error running script") {
        return (code, detail);
    }
    // Redis 6.2 names the place twice for what the server itself refuses, and not in one form.
    let mut inner = detail;
    while let Some((_, rest)) = inner.split_once("user_script:") {
        let rest = rest.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
        inner = rest.strip_prefix(':').unwrap_or(rest).trim_start();
    }
    match inner.split_once(' ') {
        Some((first, rest)) if is_code(first) => (first.trim_start_matches('-'), rest),
        _ => (code, inner),
    }
}

fn is_code(word: &str) -> bool {
    let word = word.trim_start_matches('-');
    word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// The text without the place in the script, and without the arguments of a command, among
/// which a password can be.
fn without_noise(detail: &str) -> &str {
    let text = match detail.rsplit_once(" script: ") {
        Some((text, place)) if place.contains("user_script:") => text,
        _ => detail,
    };
    let text = text
        .split(", with args beginning with")
        .next()
        .unwrap_or_default();
    text.trim().trim_end_matches(['.', ','])
}

/// The words of a server as they can stand in a line of a log: in RESP3 it may send megabytes of anything.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut quoted: String = text.chars().take(LONGEST_QUOTE).map(plain).collect();
    if text.chars().nth(LONGEST_QUOTE).is_some() {
        quoted.push('…');
    }
    quoted
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        // An abbreviation such as `DB` stays as it is.
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}
