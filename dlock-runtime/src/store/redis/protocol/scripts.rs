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
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_a_login_may_send_every_script() {
        for script in [&*ACQUIRE, &*RENEW, &*RELEASE, &*RAISE, &*DROP] {
            let (name, length) = (script.name, script.source.len());
            assert!(length <= 16 * 1024, "{name}: {length} bytes");
            assert!(!script.source.contains("\n--"), "{name}");
        }
    }
}
