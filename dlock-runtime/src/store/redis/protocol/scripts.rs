//! The sources of the scripts, as they are sent to the server.

use std::sync::LazyLock;

const RELEASE_SOURCE: &str = concat!(
    include_str!("release.lua"),
    include_str!("sharing.lua"),
    include_str!("leave.lua")
);

pub(crate) static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    let source = concat!(
        include_str!("acquire.lua"),
        include_str!("sharing.lua"),
        include_str!("join.lua")
    );
    Script::new("acquire", source, 4)
});
pub(crate) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::new("renew", include_str!("renew.lua"), 1));
pub(crate) static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new("release", RELEASE_SOURCE, 4));
pub(crate) static RAISE: LazyLock<Script> =
    LazyLock::new(|| Script::new("raise", include_str!("raise.lua"), 2));
pub(crate) static DROP: LazyLock<Script> =
    LazyLock::new(|| Script::new("drop", include_str!("drop.lua"), 1));
#[cfg(feature = "admin")]
pub(crate) static INSPECT: LazyLock<Script> =
    LazyLock::new(|| Script::new("inspect", include_str!("inspect.lua"), 4));
#[cfg(feature = "admin")]
pub(crate) static UNLOCK: LazyLock<Script> = LazyLock::new(|| {
    let source = concat!(
        include_str!("unlock.lua"),
        include_str!("release.lua"),
        include_str!("sharing.lua"),
        include_str!("leave.lua")
    );
    Script::new("unlock", source, 4)
});

/// Returns the source of every script that a lock usually needs, to be loaded on a new connection.
pub(crate) fn sources() -> [&'static str; 3] {
    [&ACQUIRE, &RENEW, &RELEASE].map(|script| &*script.source)
}

pub(crate) struct Script {
    pub(crate) name: &'static str,
    /// Without comments and indents. A client that has not logged in may send 16 KiB at once: the server answers
    /// a longer text by closing the connection, and the reason is lost.
    pub(crate) source: String,
    pub(crate) hash: String,
    pub(crate) key_count: usize,
}

impl Script {
    fn new(name: &'static str, source: &'static str, key_count: usize) -> Self {
        let source = without_comments(source);
        let hash = redis::Script::new(&source).get_hash().to_owned();
        Self {
            name,
            source,
            hash,
            key_count,
        }
    }

    /// Returns the command that is called in a line.
    pub(crate) fn command(&self, line: usize) -> Option<&str> {
        let line = self.source.lines().nth(line.checked_sub(1)?)?;
        line.split('\'')
            .nth(1)
            .filter(|word| word.bytes().all(|byte| byte.is_ascii_uppercase()))
    }

    /// Returns the number of the key on which the command in a line works, counted from zero.
    pub(crate) fn key(&self, line: usize) -> Option<usize> {
        let line = self.source.lines().nth(line.checked_sub(1)?)?;
        let (_, arguments) = line.split_once("', ")?;
        let name = arguments.split([',', ')']).next()?;
        match name {
            "lock" => Some(0),
            "queue" => Some(1),
            "living" => Some(2),
            "fence" | "last_fence" => self.key_count.checked_sub(1),
            _ => {
                let number = name.strip_prefix("KEYS[")?.strip_suffix(']')?;
                number.parse::<usize>().ok()?.checked_sub(1)
            }
        }
    }
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server names the line where a script has met data of another type.
    #[test]
    fn each_line_that_can_fail_names_its_key() {
        for script in [&*ACQUIRE, &*RENEW, &*RELEASE, &*RAISE, &*DROP] {
            for (line, number) in script.source.lines().zip(1..) {
                // A key has a time and a time to live, whatever its type.
                let of_any_type = ["'TIME'", "'PTTL', key)", "'PEXPIRE', key,"];
                let is_of_any = of_any_type.iter().any(|call| line.contains(call));
                if line.contains("redis.call('") && !is_of_any {
                    let key = script.key(number);
                    let is_one = key.is_some_and(|key| key < script.key_count);
                    assert!(is_one, "{}: {line}", script.name);
                }
            }
        }
    }

    #[test]
    fn the_keys_of_a_script_are_told_apart() {
        let key = |script: &Script, text: &str| {
            let line = script.source.lines().position(|line| line.contains(text));
            script.key(line.expect("the script has it") + 1)
        };
        for (text, number) in [
            ("redis.call('GET', lock)", 0),
            ("redis.call('ZSCORE', queue,", 1),
            ("redis.call('ZSCORE', living,", 2),
            ("redis.call('GET', fence) or '0'", 3),
            ("run('GET', fence)", 3),
        ] {
            assert_eq!(key(&ACQUIRE, text), Some(number), "{text}");
        }
        assert_eq!(key(&RELEASE, "redis.call('ZREM', KEYS[3],"), Some(2));
        assert_eq!(key(&RAISE, "redis.call('GET', last_fence)"), Some(1));
        assert_eq!(key(&ACQUIRE, "redis.call('TIME')"), None);
        assert_eq!((ACQUIRE.key(0), ACQUIRE.key(10_000)), (None, None));
    }

    #[test]
    fn a_client_without_a_login_may_send_every_script() {
        for script in [&*ACQUIRE, &*RENEW, &*RELEASE, &*RAISE, &*DROP] {
            let (name, length) = (script.name, script.source.len());
            assert!(length <= 16 * 1024, "{name}: {length} bytes");
            assert!(!script.source.contains("\n--"), "{name}");
        }
    }
}
