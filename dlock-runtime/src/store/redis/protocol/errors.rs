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

/// The text of newer servers inside a script, in place of `NOPERM`.
const ACL_IN_SCRIPT: &str = "ACL failure in script: ";

/// The answers of servers to the number of a database that they do not have. The last one is the answer to a
/// number outside the range of an integer; a login contains no other number.
const NO_SUCH_DATABASE: [&str; 3] = [
    "DB index is out of range",
    "invalid DB index",
    "value is out of range",
];

/// The limit of a quoted text, in characters. Real answers are shorter.
const LONGEST_QUOTE: usize = 300;

/// The advice for a server that accepts connections but does not answer.
const CHECK_SILENCE: &str = "check whether the server is stopped, paused by `CLIENT PAUSE` or busy with a \
                             long command, and whether a proxy in front of it still reaches it";

/// Commands that dlock sends under these names. Where dlock sends one of them, no lock works without it.
const NEEDED: [&str; 5] = ["EVALSHA", "EVAL", "SUBSCRIBE", "ASKING", "WAIT"];

const NO_HELLO: &str = "the server does not support `HELLO 3`; if it is Redis 6.2 or later behind a \
                        proxy that forwards `SUBSCRIBE`, append `?protocol=resp2` to the URL";

/// Creates the error for a missing tokio runtime. Requests and connections need one.
pub(crate) fn no_runtime(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::NoRuntime, message)
}

/// Converts the failure of one request. `limit` is the time for which its answer was awaited.
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
        // The library's own texts may quote its input.
        _ => bad_answer("the server's answer is not valid Redis protocol"),
    }
}

/// Converts the failure of a command that is not a script.
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

/// Converts the failure of a login. The last step of a login selects the database.
pub(crate) fn of_login(error: &RedisError, limit: Duration, database: i64) -> StoreError {
    let sorted = of_request(error, limit);
    let message = sorted.message();
    let is_no_database = NO_SUCH_DATABASE
        .iter()
        .any(|text| message.starts_with(text));
    if is_no_database {
        let message = format!(
            "the server has no database {database} ({message}); set another number at the end of the URL, or \
             raise `databases` in the server's configuration"
        );
        return unsupported(message).with_advice();
    }
    // The arguments of the command are left out, so the whole text is about the command.
    let is_unknown = sorted.kind() == StoreErrorKind::Unsupported;
    if is_unknown && message.to_ascii_lowercase().contains("hello") {
        return no_hello();
    }
    sorted
}

/// Creates the error of a connection that could not be opened.
pub(crate) fn of_connect(address: impl Display, error: &io::Error) -> StoreError {
    let text = error.to_string();
    // The number adds nothing to the text.
    let words = text.split(" (os error").next().unwrap_or_default();
    StoreError::new(
        StoreErrorKind::Unreachable,
        cannot_connect(address, lower_first(words)),
    )
}

/// Returns the text for a failed attempt to connect.
pub(crate) fn cannot_connect(address: impl Display, cause: impl Display) -> String {
    format!("cannot connect to {address}: {cause}")
}

/// Creates the error of a server that accepted a connection but did not answer within `limit`.
pub(crate) fn silent(address: impl Display, limit: Duration) -> StoreError {
    let cause =
        format!("it accepts connections, but gave no answer within {limit:.0?}; {CHECK_SILENCE}");
    let message = cannot_connect(address, cause);
    StoreError::new(StoreErrorKind::Unreachable, message).with_advice()
}

/// Creates the error of a request without a connection, after the last connection was closed because the server
/// did not answer.
pub(crate) fn silenced(address: &str, limit: Duration) -> StoreError {
    let message = format!(
        "no connection to {address} within {limit:.0?}, after it stopped answering; {CHECK_SILENCE}"
    );
    StoreError::new(StoreErrorKind::Unreachable, message).with_advice()
}

/// Creates the error for a `limit` in which no attempt succeeded, from the last failure.
pub(crate) fn given_up(address: &str, limit: Duration, last: &StoreError) -> StoreError {
    let attempt = cannot_connect(address, "");
    last.reworded(|message| {
        let cause = message.strip_prefix(&attempt).unwrap_or(message);
        // Not rounded, so that the number can be found in the configuration.
        format!("cannot connect to {address} within {limit:?}: {cause}")
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

/// Creates the error for the URL of one server that is a node of a cluster.
pub(crate) fn in_a_cluster() -> StoreError {
    unsupported("the server is a node of a Redis Cluster; write `redis-cluster://` in the URL")
        .with_advice()
}

/// Creates the error for the URL of a cluster whose server is not in cluster mode.
pub(crate) fn in_no_cluster() -> StoreError {
    unsupported("the server is not in cluster mode; write `redis://` in the URL").with_advice()
}

pub(crate) fn too_old(what: &str) -> StoreError {
    unsupported(format!(
        "the server is too old: {what}; use Redis 6.2 or later, or Valkey"
    ))
    .with_advice()
}

/// Creates the error of a connection that is closed at commands which every server answers.
pub(crate) fn closed_by_a_proxy() -> StoreError {
    unsupported(
        "the connection was closed at a command, although `PING` is answered: a proxy such as twemproxy, which does \
         not forward what dlock needs, is probably in between; connect to the server itself",
    )
    .with_advice()
}

/// Returns the line at which a script failed, if the server reports it.
pub(crate) fn script_line(error: &RedisError) -> Option<usize> {
    // Some places have no number. Of several with a number, the last one is the server's own.
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

/// Returns `true` if the server refused a request before it wrote anything.
///
/// A request whose error is not in this table may have been carried out in part: a server does not undo the
/// writes of a script that fails later. Redis 6.2 to 8 and Valkey 7.2 to 9 answer
///
/// | code | of the whole command | inside a script |
/// |---|---|---|
/// | `NOPERM` | before it runs | never with this code; as an `ERR`, possibly after a write |
/// | `MISCONF`, `NOREPLICAS` | before it runs | at the first write: the check is for every writing command; since 7.0 later commands are not checked, and in 6.2 the checked state does not change while a script runs |
/// | `OOM` | before it runs | at the first write: a script that has written may continue |
/// | `READONLY`, `MASTERDOWN`, `LOADING` | before it runs | at the first write, as `MISCONF` |
/// | `BUSY` | before it runs: a script of another client runs | never |
/// | `CLUSTERDOWN`, `TRYAGAIN`, `MOVED`, `ASK` | before it runs: no node can run it | possibly after a write, if a slot moves |
/// | `NOAUTH`, `DENIED`, too many clients | before it runs | never |
///
/// The server makes all these checks for the first write of each script. `acquire.lua` and `raise.lua` write
/// the fence before the lock, both by `SET`. Crashed waiters leave the queue by `ZREM`, which a server out of
/// memory allows; after that, the server refuses nothing for lack of memory. After its first write,
/// `release.lua` makes every call that can fail by `pcall`, except `DEL`.
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
            return StoreError::new(Kind::Unauthenticated, "the server requires a password");
        }
        "WRONGPASS" => Kind::Unauthenticated,
        // The store of a cluster follows these redirections, so they never get here.
        "MOVED" | "ASK" => return in_a_cluster(),
        // Envoy says `unsupported command 'X'`, without a code.
        "unsupported" if detail.starts_with("command ") => Kind::Unsupported,
        _ if detail.contains("cluster support disabled") => return in_no_cluster(),
        "DENIED" => {
            return StoreError::new(
                Kind::Refused,
                "the server is in protected mode and accepts only local connections",
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
            // The library drops the error code of the answer to `SELECT`.
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
        // MISCONF, NOREPLICAS, BUSY, TRYAGAIN, CLUSTERDOWN, too many clients, and all other errors:
        // the server refused the request, and may accept it later.
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
        if code == "NOREPLICAS" {
            let text =
                format!("{text}: its setting `min-replicas-to-write` needs more than answer");
            return StoreError::new(kind, text);
        }
        return StoreError::new(kind, text.trim_end());
    }
    StoreError::new(kind, text)
}

/// Returns the command that the server reports as unknown, if every version has it and locks need it.
fn unknown_command(detail: &str) -> Option<&str> {
    let name = detail.strip_prefix("unknown ").unwrap_or(detail);
    let name = name.strip_prefix("command")?;
    let name = name.trim_matches([' ', '\'', '`', ',', '"']);
    NEEDED.into_iter().find(|it| it.eq_ignore_ascii_case(name))
}

/// Creates the error for a command that every supported version has and this server does not know.
pub(crate) fn not_known(command: &str) -> StoreError {
    unsupported(format!(
        "unknown command '{command}': the server has renamed or disabled it (`rename-command`), or a proxy, such \
         as Envoy, does not forward it; dlock needs it, so enable it, or connect to the server itself"
    ))
    .with_advice()
}

/// Checks the answer to a command that locks need and that was tried on a new connection. Returns an error if
/// a retry cannot succeed.
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
            let message = format!("{} (`{command}`, rule `+{rule}`)", error.message());
            Err(StoreError::new(StoreErrorKind::Denied, message))
        }
        StoreErrorKind::Unsupported => Err(error),
        _ => Ok(()),
    }
}

/// Returns the failure inside a script from the `ERR` in which the server wraps it.
fn unwrapped<'a>(code: &'a str, detail: &'a str) -> (&'a str, &'a str) {
    if code != "ERR" || !detail.starts_with("Error running script") {
        return (code, detail);
    }
    // For its own refusals, Redis 6.2 names the place twice, in different forms.
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

/// Returns the text without the place in the script, and without the arguments of a command, which can contain
/// a password.
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

/// Returns a server's text in a form that fits into one line of a log. In RESP3 a server may send megabytes of
/// arbitrary text.
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
