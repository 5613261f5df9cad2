//! Mistakes in what connections to Redis have of the runtimes and pools of their users.

use super::super::look::Look::{self, Tests};
use super::super::look::{RUNTIME, Target};
use super::super::mutant::Mutant;

const HOME: &str = "dlock-runtime/src/store/redis/net/home.rs";
const RESOLVER: &str = "dlock-runtime/src/store/redis/net/resolver.rs";
const SERVICE: &str = "dlock-runtime/src/store/redis/net/service.rs";
const SESSION: &str = "dlock-runtime/src/store/redis/net/session.rs";
const TASK: &str = "dlock-runtime/src/store/redis/net/task.rs";
const TCP: &str = "dlock-runtime/src/store/redis/net/tcp.rs";

/// The store alone, over real servers.
const STORE: Target = Target {
    package: "dlock-runtime",
    test: Some("redis_store"),
};

const UNIT: &[Look] = &[Tests(
    RUNTIME,
    &["net::resolver", "net::service", "net::task"],
)];

const RUNTIMES: &[Look] = &[Tests(STORE, &["runtimes::"])];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "lookup-in-the-pool",
        "Host names are resolved in the blocking pool of the caller",
        TCP,
        "let addresses = «resolver.addresses(host, port, limit).await?»;",
        "{ let _ = (resolver, Resolver::addresses); \
         tokio::net::lookup_host((host, port)).await?.collect::<Vec<_>>() }",
        RUNTIMES,
    )
    .breaks("A lookup never uses the user's runtime or its pool"),
    Mutant::new(
        "lookup-not-shared",
        "Each caller starts a lookup of its own",
        RESOLVER,
        "if let Some(answer) = «&name.under_way» {",
        "&None::<watch::Receiver<LookupAnswer>>",
        UNIT,
    )
    .breaks("A name has one lookup under way at a time"),
    Mutant::new(
        "addresses-not-kept",
        "The last addresses are not used while the resolver does not answer",
        RESOLVER,
        "Err(error) if «!known.is_empty() && is_temporary(&error)» => known,",
        "known.len() > MOST_NAMES && is_temporary(&error)",
        UNIT,
    )
    .breaks("The last addresses are used while the resolver is slow"),
    Mutant::new(
        "addresses-of-a-name-that-is-gone",
        "The last addresses of a name are used although it does not exist any more",
        RESOLVER,
        "Err(error) if !known.is_empty() && «is_temporary(&error)» => known,",
        "{ let _ = is_temporary; error.kind() != io::ErrorKind::Interrupted }",
        UNIT,
    )
    .breaks("An answer replaces them"),
    Mutant::new(
        "runtime-not-doubted",
        "A request without an answer does not doubt the runtime of its connection",
        SERVICE,
        "«cell.doubt();» } this.timer",
        "let _ = cell;",
        &[Tests(RUNTIME, &["net::service"])],
    )
    .breaks("makes dlock spawn an empty task on the runtime of the connection"),
    Mutant::new(
        "running-runtime-left",
        "The tasks leave a runtime that runs",
        HOME,
        "if «timeout(asked.0.patience, runs).await.is_err()» {",
        "{ drop(timeout(asked.0.patience, runs).await); true }",
        UNIT,
    )
    .breaks("A runtime that runs keeps the tasks"),
    Mutant::new(
        "one-task-moves",
        "Only the first task of a store leaves a runtime that does not run",
        HOME,
        "«resident.leave(from, to);»",
        "resident.leave(from, to); break;",
        UNIT,
    )
    .breaks("One rule for all tasks of a store"),
    Mutant::new(
        "tasks-come-back",
        "A task whose runtime has ended follows the next request, although the store has moved",
        HOME,
        "«self.own.get().unwrap_or(current)»",
        "current",
        UNIT,
    ),
    Mutant::new(
        "old-driver-goes-on",
        "The driver of a connection that was given up goes on",
        SESSION,
        "«self.driver.end().end();»",
        "",
        RUNTIMES,
    )
    .breaks("The socket of a connection that moves is closed before the next one is opened"),
    Mutant::new(
        "end-without-a-drop",
        "A task that is ended is dropped only when its runtime runs again",
        TASK,
        "«drop(ended);»",
        "std::mem::forget(ended);",
        UNIT,
    )
    .breaks("its future is dropped, from outside of the runtime"),
    Mutant::new(
        "unfit-runtime-kept",
        "The tasks stay on a runtime without sockets",
        SERVICE,
        "if «LACKS.iter().any(|lack| text.contains(lack))»",
        "LACKS.iter().all(|lack| text.contains(lack))",
        UNIT,
    )
    .breaks("A runtime without sockets cannot have the tasks"),
];
