//! The rooms: parts of the sources with the tests that look after them.

use crate::look::{
    ADMIN, CANCELLATION, COMMAND, FORKS, IN_PROCESS, MACROS, PAGE, RUNTIME, TYPED, Target, WEB,
    facade,
};

/// A part of the sources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) name: &'static str,
    /// Folders or files. One that is named by another room, too, belongs to that with the longer name of it.
    places: &'static [&'static str],
    /// The tests that have to notice a mistake, in the order in which they are tried.
    pub(super) targets: &'static [Target],
}

const fn unit(package: &'static str) -> Target {
    Target {
        package,
        test: None,
    }
}

const fn test(package: &'static str, test: &'static str) -> Target {
    Target {
        package,
        test: Some(test),
    }
}

pub(super) const ROOMS: [Room; 14] = [
    Room {
        name: "state",
        places: &["dlock-runtime/src/state"],
        targets: &[RUNTIME, IN_PROCESS],
    },
    Room {
        name: "engine",
        places: &[
            "dlock-runtime/src/engine",
            "dlock-runtime/src/lane.rs",
            "dlock-runtime/src/process",
        ],
        targets: &[RUNTIME, IN_PROCESS, FORKS, CANCELLATION, facade("servers")],
    },
    Room {
        name: "api",
        places: &[
            "dlock-runtime/src/api",
            "dlock-runtime/src/observe",
            "dlock-runtime/src/lib.rs",
        ],
        targets: &[RUNTIME, IN_PROCESS, facade("registry"), facade("servers")],
    },
    Room {
        name: "scripts",
        places: &["dlock-runtime/src/store/redis/protocol/"],
        targets: &[
            RUNTIME,
            test("dlock-runtime", "redis_store"),
            facade("conformance"),
            facade("servers"),
        ],
    },
    Room {
        name: "redis",
        places: &["dlock-runtime/src/store"],
        targets: &[
            RUNTIME,
            test("dlock-runtime", "redis_store"),
            facade("conformance"),
            facade("servers"),
            facade("failover"),
        ],
    },
    Room {
        name: "net",
        places: &["dlock-net/src"],
        targets: &[
            unit("dlock-net"),
            RUNTIME,
            facade("servers"),
            test("dlock-postgres", "faults"),
            test("dlock-etcd", "faults"),
        ],
    },
    Room {
        name: "schema",
        places: &[
            "dlock-postgres/src/schema/functions.sql",
            "dlock-postgres/src/schema/leases.sql",
            "dlock-postgres/src/schema/keys.sql",
        ],
        targets: &[
            test("dlock-postgres", "store"),
            test("dlock-postgres", "faults"),
        ],
    },
    Room {
        name: "postgres",
        places: &["dlock-postgres/src"],
        targets: &[
            unit("dlock-postgres"),
            test("dlock-postgres", "store"),
            test("dlock-postgres", "faults"),
        ],
    },
    Room {
        name: "etcd",
        places: &["dlock-etcd/src"],
        targets: &[
            unit("dlock-etcd"),
            test("dlock-etcd", "store"),
            TYPED,
            test("dlock-etcd", "faults"),
        ],
    },
    Room {
        name: "zookeeper",
        places: &["dlock-zookeeper/src"],
        targets: &[
            unit("dlock-zookeeper"),
            test("dlock-zookeeper", "store"),
            test("dlock-zookeeper", "faults"),
        ],
    },
    Room {
        name: "admin",
        places: &["dlock-admin/src", "dlock-runtime/src/store/redis/admin"],
        targets: &[ADMIN, RUNTIME, TYPED, facade("servers")],
    },
    Room {
        name: "page",
        places: &["dlock-admin-web/src", "dlock-cli/src/commands/serve"],
        targets: &[WEB, COMMAND, TYPED, PAGE],
    },
    Room {
        name: "command",
        places: &["dlock-cli/src"],
        targets: &[COMMAND, TYPED],
    },
    Room {
        name: "macros",
        places: &["dlock-macros/src"],
        targets: &[MACROS],
    },
];

impl Room {
    /// Whether this test looks after the room. Of the command's tests, those of its store do.
    pub(super) fn has(&self, target: Target, name: &str) -> bool {
        let package = format!("dlock-{}/src", self.name);
        let is_store = self.places == [&*package];
        let is_meant =
            target != TYPED || !is_store || name.starts_with(&format!("{}::", self.name));
        self.targets.contains(&target) && is_meant
    }
}

/// The room of a file that git knows, if its mistakes are counted.
pub(super) fn room_of(file: &str) -> Option<&'static Room> {
    const TESTS: [&str; 4] = ["/tests/", "/tests.rs", "/snapshots/", "/fuzzing"];
    let is_test = TESTS.iter().any(|it| file.contains(it));
    let is_code = [".rs", ".lua", ".sql"].iter().any(|it| file.ends_with(it));
    if is_test || !is_code {
        return None;
    }
    let length = |room: &&Room| {
        let places = room.places.iter().filter(|it| file.starts_with(**it));
        places.map(|it| it.len()).max().unwrap_or(0)
    };
    ROOMS
        .iter()
        .max_by_key(length)
        .filter(|room| length(room) > 0)
}

/// The beginnings of the names of files that belong to tests alone, by what this file declares.
pub(super) fn test_modules(file: &str, text: &str) -> Vec<String> {
    let stem = file.trim_end_matches(".rs");
    let folder = ["/lib", "/main"]
        .iter()
        .find_map(|it| stem.strip_suffix(it));
    let folder = folder.unwrap_or(stem);
    let behind = text.split("#[cfg(test)]").skip(1);
    let names = behind.filter_map(|it| {
        let (declared, _) = it.split_once(';')?;
        declared.trim().strip_prefix("mod ")
    });
    names.map(|name| format!("{folder}/{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_room_that_names_it_most_closely() {
        for (file, room) in [
            ("dlock-runtime/src/state/claim.rs", Some("state")),
            ("dlock-runtime/src/state/tests/desk.rs", None),
            (
                "dlock-runtime/src/store/redis/protocol/acquire.lua",
                Some("scripts"),
            ),
            ("dlock-runtime/src/store/memory.rs", Some("redis")),
            ("dlock-postgres/src/schema/functions.sql", Some("schema")),
            ("dlock-postgres/src/schema/from_1.sql", Some("postgres")),
            ("dlock-cli/src/commands/serve/auth.rs", Some("page")),
            ("dlock-cli/src/main.rs", Some("command")),
            ("dlock-cli/README.md", None),
            ("xtask/src/main.rs", None),
        ] {
            assert_eq!(room_of(file).map(|it| it.name), room, "{file}");
        }
    }

    #[test]
    fn a_module_for_tests_is_known_by_its_declaration() {
        let text = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n";
        assert_eq!(test_modules("p/src/lib.rs", text), ["p/src/b"]);
        assert_eq!(test_modules("p/src/c.rs", text), ["p/src/c/b"]);
    }

    #[test]
    fn the_commands_tests_of_other_stores_are_left_out() {
        let room = |name| ROOMS.iter().find(|room| room.name == name).unwrap();
        for (name, target, test, expected) in [
            ("etcd", TYPED, "etcd::reads::a", true),
            ("etcd", TYPED, "postgres::reads::a", false),
            ("etcd", unit("dlock-etcd"), "beat::tests::a", true),
            ("admin", TYPED, "postgres::reads::a", true),
        ] {
            assert_eq!(room(name).has(target, test), expected, "{name} {test}");
        }
    }

    #[test]
    fn each_place_of_a_room_is_there() {
        for place in ROOMS.iter().flat_map(|room| room.places) {
            assert!(crate::workspace::root().join(place).exists(), "{place}");
        }
    }
}
