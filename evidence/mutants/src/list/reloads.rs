//! Mistakes in certificates that are loaded again while a program runs.

use super::super::look::Look::{self, Test};
use super::super::look::{RUNTIME, Target, facade};
use super::super::mutant::Mutant;

const RELOADED: &str = "dlock-runtime/src/store/reloaded.rs";

const POSTGRES: Target = Target {
    package: "dlock-postgres",
    test: Some("store"),
};

const ETCD: Target = Target {
    package: "dlock-etcd",
    test: Some("faults"),
};

const FROM_TIME_TO_TIME: &[Look] = &[Test(
    RUNTIME,
    "store::reloaded::tests::a_file_is_loaded_from_time_to_time_as_long_as_a_store_has_it",
)];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "reload-not-used",
        "Files that are loaded again are not used",
        RELOADED,
        "let before = «value.map(|value| std::mem::replace(&mut state.value, value))»;",
        "value",
        FROM_TIME_TO_TIME,
    ),
    Mutant::new(
        "reload-ends",
        "After a load that has failed, files are loaded no more",
        RELOADED,
        "«self.ended(begun, value, fault);»",
        "let has_failed = fault.is_some(); self.ended(begun, value, fault); if has_failed { return; }",
        &[Test(
            RUNTIME,
            "store::reloaded::tests::a_load_that_fails_changes_nothing",
        )],
    ),
    Mutant::new(
        "reload-without-end",
        "The thread that loads files outlives its store",
        RELOADED,
        "while «wanted.recv_timeout(pauses.usual) != Err(RecvTimeoutError::Disconnected)» {",
        "{ wanted.recv_timeout(pauses.usual).ok(); true }",
        FROM_TIME_TO_TIME,
    ),
    Mutant::new(
        "reload-redis",
        "A connection to Redis that fails does not have its certificates loaded again",
        "dlock-runtime/src/store/redis/net/handshake.rs",
        "Ok(Err(Failure::Tls(fault))) => «self.0.failed(refused(&fault))»,",
        "refused(&fault)",
        &[Test(
            facade("servers"),
            "connection::tls::certificates_are_replaced_while_a_program_runs",
        )],
    ),
    Mutant::new(
        "reload-postgres",
        "A connection to PostgreSQL that fails does not have its certificates loaded again",
        "dlock-postgres/src/session/keeper.rs",
        "Some(tls) => «tls.failed(error)»,",
        "{ let _ = tls; error }",
        &[Test(
            POSTGRES,
            "faults::certificates_are_replaced_while_a_program_runs",
        )],
    ),
    Mutant::new(
        "reload-etcd",
        "A connection to etcd that fails does not have its certificates loaded again",
        "dlock-etcd/src/config.rs",
        "«self.endpoints.failed(error)»",
        "error",
        &[Test(
            ETCD,
            "login::certificates_are_replaced_while_a_program_runs",
        )],
    ),
    Mutant::new(
        "reload-final",
        "A fault of TLS ends waits although the files may have been replaced",
        RELOADED,
        "if is_loaded_again && «is_old» {",
        "false",
        &[Test(
            RUNTIME,
            "store::reloaded::tests::a_fault_is_final_only_if_the_files_were_just_loaded",
        )],
    ),
    Mutant::new(
        "etcd-no-authority",
        "A file without the certificate of an authority replaces one that has it",
        "dlock-etcd/src/config.rs",
        "if usable.is_ok_and(|usable| «usable > 0») {",
        "usable < usize::MAX",
        &[Test(
            Target {
                package: "dlock-etcd",
                test: None,
            },
            "config::tests::a_file_without_the_certificate_of_an_authority_is_refused",
        )],
    ),
];
