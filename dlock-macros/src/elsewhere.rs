//! Maps option names of other libraries to the options of this one.
//!
//! The names come from `ShedLock`, Redisson, Spring Integration, lock4j, node-redlock, redis-semaphore,
//! redis-py, python-redis-lock and pottery. None of them is an alias, because the libraries disagree about
//! their meanings. The help text names the option to write.

/// Names of other libraries for one option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// In lower case and without `_`, because `lockAtMostFor` and `lock_at_most_for` are one name.
    names: &'static [&'static str],
    means: Means,
    /// The option to write, with its syntax.
    pub(crate) help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// The key. A message about a missing key would be the second message for the same mistake.
    Key,
    Another,
}

impl Elsewhere {
    pub(crate) fn is_key(&self) -> bool {
        self.means == Means::Key
    }
}

/// Returns the entry that lists `name`.
pub(crate) fn find(name: &str) -> Option<Elsewhere> {
    let name = name.replace('_', "").to_lowercase();
    let mut known = NAMES.iter();
    known
        .find(|known| known.names.contains(&name.as_str()))
        .copied()
}

const fn key(names: &'static [&'static str], help: &'static str) -> Elsewhere {
    let means = Means::Key;
    Elsewhere { names, means, help }
}

const fn other(names: &'static [&'static str], help: &'static str) -> Elsewhere {
    let means = Means::Another;
    Elsewhere { names, means, help }
}

const NAMES: &[Elsewhere] = &[
    key(
        &["name"],
        "to name the lock, write `key = \"order:<id>\"`; to name it in metrics, write `metric = \"settle-order\"`",
    ),
    key(
        &[
            "resource",
            "lock",
            "lockname",
            "lockkey",
            "lockregistrykey",
            "template",
        ],
        "to name the lock, write `key = \"order:<id>\"`",
    ),
    key(
        &["keys", "resources", "locknames", "lockkeys"],
        "to lock several keys, write a list: `key = [\"account:<from>\", \"account:<to>\"]`",
    ),
    key(
        &["spel", "expression", "keyexpression"],
        "to use a value of the call, write a placeholder: `key = \"order:<order.id>\"`",
    ),
    other(
        &["prefix", "keyprefix", "lockprefix", "namespace"],
        "write the prefix in the key: `key = \"order:<id>\"`; for all keys, set the manager's `namespace`",
    ),
    other(
        &[
            "expire",
            "expires",
            "expiry",
            "expiration",
            "expirein",
            "expireafter",
            "expiretime",
            "leasetime",
            "leasetimeout",
            "leaseduration",
            "lifetime",
            "timetolive",
            "autoreleasetime",
            "ex",
            "px",
        ],
        "to set the lease length, write `ttl = \"30s\"`",
    ),
    other(
        &["lockatmostfor", "defaultlockatmostfor"],
        "to limit how long a crash blocks others, write `ttl = \"30s\"`; to limit how long the lock is held, write `max_hold = \"14m\"`; the lease is renewed until then",
    ),
    other(
        &["lockatleastfor", "defaultlockatleastfor"],
        "to set a minimum hold time, write `min_hold = \"10s\"`",
    ),
    other(
        &[
            "acquiretimeout",
            "acquisitiontimeout",
            "blockingtimeout",
            "waittime",
            "waittimeout",
            "maxwait",
        ],
        "to limit the wait for a busy lock, write `wait = \"5s\"`",
    ),
    other(
        &["timeout", "locktimeout", "duration"],
        "to limit the wait for a busy lock, write `wait = \"5s\"`; to set the lease length, write `ttl = \"30s\"`",
    ),
    other(
        &["timeunit", "unit"],
        "write the unit in the duration: `ttl = \"30s\"`, `wait = \"500ms\"`",
    ),
    other(
        &[
            "retry",
            "retries",
            "retrycount",
            "retrydelay",
            "retryinterval",
            "retryjitter",
            "maxretries",
            "attempts",
            "backoff",
            "sleep",
        ],
        "remove it: a waiter is woken and does not retry; to limit the wait, write `wait = \"5s\"`; to try once, write `wait = never`",
    ),
    other(
        &["blocking", "block", "nonblocking", "trylock", "nowait"],
        "to try once, write `wait = never`; to wait for a busy lock, write `wait = \"5s\"`",
    ),
    other(
        &[
            "autoextend",
            "autorenew",
            "autorenewal",
            "automaticextensionthreshold",
            "extend",
            "heartbeat",
            "keepalive",
            "lockwatchdogtimeout",
            "refreshinterval",
            "renewal",
            "watchdog",
        ],
        "remove it: leases are renewed automatically; to disable renewal, write `renew = false`",
    ),
    other(
        &["autorelease", "autounlock", "release"],
        "remove it: the lock is released after the body; to hold it longer, write `min_hold = \"10s\"`",
    ),
    other(
        &["fair", "fairlock", "fairness"],
        "remove it: waiters acquire the lock in the order in which they arrive",
    ),
    other(
        &[
            "read",
            "reader",
            "readers",
            "readlock",
            "readonly",
            "rwlock",
            "readwritelock",
            "sharedlock",
        ],
        "to hold the lock together with other readers, write `mode = shared`",
    ),
    other(
        &["shared", "sharedkey", "sharedkeys"],
        "to hold the lock together with others, write `mode = shared`; for one key of a list, write `shared(\"tenant:<tenant>\")` in it",
    ),
    other(
        &[
            "write",
            "writer",
            "writelock",
            "exclusive",
            "exclusivelock",
            "mutex",
        ],
        "remove it: a lock is exclusive by default; for its readers, write `mode = shared`",
    ),
    other(
        &["locktype", "lockmode", "type"],
        "to set the mode, write `mode = shared`; a lock is exclusive by default",
    ),
    other(
        &[
            "semaphore",
            "maxconcurrency",
            "maxconcurrent",
            "concurrency",
            "concurrencylimit",
            "limit",
            "maxholders",
            "maxpermits",
            "maxinstances",
            "parallelism",
            "capacity",
            "slots",
        ],
        "to limit the number of holders, write `permits = 3`",
    ),
    other(
        &["reentrant"],
        "name the lease with `lease = lease` and pass it on: locks are not reentrant",
    ),
    other(
        &[
            "skip",
            "skipiflocked",
            "skipifbusy",
            "skiplocked",
            "skipwhenbusy",
        ],
        "to skip the body while the lock is busy, write `on_busy = skip`",
    ),
    other(
        &[
            "failstrategy",
            "lockfailurestrategy",
            "fallback",
            "fallbackmethod",
            "onfail",
            "onfailure",
        ],
        "to return a value if the lock is busy, write `on_busy = Ok(None)`; to convert every failure, write `on_error = |error| Err(error.into())`",
    ),
    other(
        &["condition", "disabled", "onlyif", "unless", "when"],
        "to make the lock conditional, write `enabled = config.locks`",
    ),
    other(
        &[
            "executor",
            "client",
            "connection",
            "redis",
            "redisson",
            "lockprovider",
        ],
        "to select a manager, write `manager = self.locks`, or call `dlock::install` at start-up",
    ),
    other(
        &["token", "fencingtoken", "fencing"],
        "to read the fencing token, write `lease = lease` and call `lease.fencing_token()` in the body",
    ),
    other(
        &["label", "metricname", "metricsname", "metriclabel", "tag"],
        "to name the lock in metrics, write `metric = \"settle-order\"`",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn help(name: &str) -> &'static str {
        find(name).unwrap_or_else(|| panic!("{name}")).help
    }

    #[test]
    fn a_name_leads_to_the_option_in_either_spelling() {
        for (names, option) in [
            (&["lockAtMostFor", "lock_at_most_for"][..], "`ttl = "),
            (&["lockAtLeastFor", "lock_at_least_for"], "`min_hold = "),
            (&["leaseTime", "lease_time", "lease_timeout"], "`ttl = "),
            (&["waitTime", "wait_time", "acquireTimeout"], "`wait = "),
            (&["timeout", "lockTimeout"], "`wait = "),
            (&["expire", "px"], "`ttl = "),
            (&["watchdog", "autoRenew"], "`renew = false`"),
            (&["autoRelease", "auto_release"], "`min_hold = "),
            (&["retry", "retries", "retryCount"], "`wait = never`"),
            (&["prefix", "namespace"], "`key = "),
            (&["keys"], "`key = [\"account:"),
            (&["spel"], "`key = \"order:<order.id>\"`"),
            (&["condition"], "`enabled = "),
            (&["skip_if_locked"], "`on_busy = skip`"),
            (&["name", "label", "metric_name"], "`metric = "),
            (&["read_lock", "readLock", "shared"], "`mode = shared`"),
            (&["lockType", "writeLock"], "exclusive by default"),
            (&["semaphore", "max_concurrency"], "`permits = 3`"),
        ] {
            for name in names {
                assert!(help(name).contains(option), "{name}: {}", help(name));
            }
        }
        assert!(help("fair").contains("remove it"));
        assert_eq!(find("colour"), None);
    }

    #[test]
    fn what_is_locked_counts_as_the_key() {
        for name in ["name", "keys", "lockKey", "spel"] {
            assert!(find(name).is_some_and(|it| it.is_key()), "{name}");
        }
        for name in ["prefix", "timeout", "label"] {
            assert!(!find(name).is_some_and(|it| it.is_key()), "{name}");
        }
    }

    #[test]
    fn no_name_is_listed_twice_or_cannot_be_found() {
        let mut names: Vec<_> = NAMES.iter().flat_map(|it| it.names).collect();
        let count = names.len();
        assert!(names.iter().all(|name| find(name).is_some()));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
