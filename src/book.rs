//! Tutorial, how-to pages, reference and explanation.
//!
//! Each page is a module here, so that its links, and those that lead to it, work without the repository.

/// The links between pages. In the repository they lead to files; the first definition of a name counts.
macro_rules! links {
    () => {
        "[alerting]: crate::book::alerting\n\
         [alternatives]: crate::book::alternatives\n\
         [attribute]: crate::book::attribute\n\
         [cli]: crate::book::cli\n\
         [cli#dlock-doctor]: crate::book::cli#dlock-doctor\n\
         [cli#dlock-postgres-migrate]: crate::book::cli#dlock-postgres-migrate\n\
         [cli#dlock-run]: crate::book::cli#dlock-run\n\
         [cli#dlock-top]: crate::book::cli#dlock-top\n\
         [cli#dlock-unlock]: crate::book::cli#dlock-unlock\n\
         [cli#metrics-of-a-run]: crate::book::cli#metrics-of-a-run\n\
         [crash]: crate::book::crash\n\
         [cron]: crate::book::cron\n\
         [cron#metrics-and-alerts]: crate::book::cron#metrics-and-alerts\n\
         [deploys#change-a-key-template]: crate::book::deploys#change-a-key-template\n\
         [deploys#change-the-servers]: crate::book::deploys#change-the-servers\n\
         [deploys#forks]: crate::book::deploys#forks\n\
         [deploys#roll-out-a-new-version]: crate::book::deploys#roll-out-a-new-version\n\
         [deploys#shut-down]: crate::book::deploys#shut-down\n\
         [errors]: crate::book::errors\n\
         [errors#busy]: crate::book::errors#busy\n\
         [errors#closed]: crate::book::errors#closed\n\
         [errors#denied]: crate::book::errors#denied\n\
         [errors#expired]: crate::book::errors#expired\n\
         [errors#forked]: crate::book::errors#forked\n\
         [errors#invalid-certificate]: crate::book::errors#invalid-certificate\n\
         [errors#invalid-manager-option]: crate::book::errors#invalid-manager-option\n\
         [errors#invalid-option]: crate::book::errors#invalid-option\n\
         [errors#invalid-url]: crate::book::errors#invalid-url\n\
         [errors#lost]: crate::book::errors#lost\n\
         [errors#max-hold]: crate::book::errors#max-hold\n\
         [errors#no-credentials]: crate::book::errors#no-credentials\n\
         [errors#no-url]: crate::book::errors#no-url\n\
         [errors#not-renewed]: crate::book::errors#not-renewed\n\
         [errors#other-process]: crate::book::errors#other-process\n\
         [errors#out-of-memory]: crate::book::errors#out-of-memory\n\
         [errors#overloaded]: crate::book::errors#overloaded\n\
         [errors#read-only]: crate::book::errors#read-only\n\
         [errors#renewal-disabled]: crate::book::errors#renewal-disabled\n\
         [errors#revoked]: crate::book::errors#revoked\n\
         [errors#shut-down]: crate::book::errors#shut-down\n\
         [errors#storeerrorkind]: crate::book::errors#storeerrorkind\n\
         [errors#tls]: crate::book::errors#tls\n\
         [errors#too-few-replicas]: crate::book::errors#too-few-replicas\n\
         [errors#unavailable]: crate::book::errors#unavailable\n\
         [errors#unsupported]: crate::book::errors#unsupported\n\
         [errors#would-deadlock]: crate::book::errors#would-deadlock\n\
         [errors#wrong-type]: crate::book::errors#wrong-type\n\
         [etcd]: crate::book::etcd\n\
         [etcd#check-the-lease-in-a-transaction]: crate::book::etcd#check-the-lease-in-a-transaction\n\
         [etcd#versions]: crate::book::etcd#versions\n\
         [fencing]: crate::book::fencing\n\
         [fencing#readers-and-permit-holders]: crate::book::fencing#readers-and-permit-holders\n\
         [fencing-column]: crate::book::fencing_column\n\
         [first-lock]: crate::book::first_lock\n\
         [guarantees]: crate::book::guarantees\n\
         [guarantees#a-replica-that-takes-writes]: crate::book::guarantees#a-replica-that-takes-writes\n\
         [guarantees#after-a-grant]: crate::book::guarantees#after-a-grant\n\
         [guarantees#faults-of-zookeeper-itself]: crate::book::guarantees#faults-of-zookeeper-itself\n\
         [guarantees#nested-calls]: crate::book::guarantees#nested-calls\n\
         [guarantees#replicas-and-sentinel]: crate::book::guarantees#replicas-and-sentinel\n\
         [guarantees#shared-locks-and-permits]: crate::book::guarantees#shared-locks-and-permits\n\
         [guarantees#when-a-failover-brings-readers-back]: crate::book::guarantees#when-a-failover-brings-readers-back\n\
         [how-it-works]: crate::book::how_it_works\n\
         [kubernetes#cronjobs]: crate::book::kubernetes#cronjobs\n\
         [kubernetes#elect-a-leader-among-replicas]: crate::book::kubernetes#elect-a-leader-among-replicas\n\
         [kubernetes#start-and-readiness]: crate::book::kubernetes#start-and-readiness\n\
         [managed]: crate::book::managed\n\
         [manager]: crate::book::manager\n\
         [metrics]: crate::book::metrics\n\
         [metrics#spans-and-events]: crate::book::metrics#spans-and-events\n\
         [migration#from-shedlock]: crate::book::migration#from-shedlock\n\
         [migration#moving-a-running-system]: crate::book::migration#moving-a-running-system\n\
         [permissions]: crate::book::permissions\n\
         [permissions#additional-permissions]: crate::book::permissions#additional-permissions\n\
         [permissions#operators]: crate::book::permissions#operators\n\
         [permissions#postgresql]: crate::book::permissions#postgresql\n\
         [permissions#read-only-users]: crate::book::permissions#read-only-users\n\
         [permissions#services]: crate::book::permissions#services\n\
         [postgresql]: crate::book::postgresql\n\
         [postgresql#a-lock-that-ends-with-a-transaction]: crate::book::postgresql#a-lock-that-ends-with-a-transaction\n\
         [postgresql#check-the-lease-in-a-transaction]: crate::book::postgresql#check-the-lease-in-a-transaction\n\
         [postgresql#poolers]: crate::book::postgresql#poolers\n\
         [postgresql#roles]: crate::book::postgresql#roles\n\
         [postgresql#size-and-sweeping]: crate::book::postgresql#size-and-sweeping\n\
         [postgresql#troubleshooting]: crate::book::postgresql#troubleshooting\n\
         [postgresql#upgrades]: crate::book::postgresql#upgrades\n\
         [protocol]: crate::book::protocol\n\
         [protocol#third-party-clients]: crate::book::protocol#third-party-clients\n\
         [quorum]: crate::book::quorum\n\
         [quorum#restarts]: crate::book::quorum#restarts\n\
         [quorum#shared-locks-and-permits]: crate::book::quorum#shared-locks-and-permits\n\
         [readers-writers-permits]: crate::book::readers_writers_permits\n\
         [seeing-locks]: crate::book::seeing_locks\n\
         [servers]: crate::book::servers\n\
         [servers#choose-a-deployment]: crate::book::servers#choose-a-deployment\n\
         [servers#clocks]: crate::book::servers#clocks\n\
         [servers#configure-the-server]: crate::book::servers#configure-the-server\n\
         [servers#cost-of-listing-locks]: crate::book::servers#cost-of-listing-locks\n\
         [servers#eviction]: crate::book::servers#eviction\n\
         [servers#proxies]: crate::book::servers#proxies\n\
         [servers#sentinel]: crate::book::servers#sentinel\n\
         [threads]: crate::book::threads\n\
         [threads#inside-an-async-program]: crate::book::threads#inside-an-async-program\n\
         [troubleshooting#a-lock-is-stuck]: crate::book::troubleshooting#a-lock-is-stuck\n\
         [troubleshooting#everything-is-busy]: crate::book::troubleshooting#everything-is-busy\n\
         [troubleshooting#locks-are-lost]: crate::book::troubleshooting#locks-are-lost\n\
         [troubleshooting#the-server-restarted-empty]: crate::book::troubleshooting#the-server-restarted-empty\n\
         [ttl-and-wait]: crate::book::ttl_and_wait\n\
         [ttl-and-wait#max_hold]: crate::book::ttl_and_wait#max_hold\n\
         [ttl-and-wait#ttl]: crate::book::ttl_and_wait#ttl\n\
         [urls]: crate::book::urls\n\
         [urls#credentials]: crate::book::urls#credentials\n\
         [urls#options]: crate::book::urls#options\n\
         [urls#tls]: crate::book::urls#tls\n\
         [which-store]: crate::book::which_store\n\
         [zookeeper]: crate::book::zookeeper\n\
         [zookeeper#check-the-lease-in-a-transaction]: crate::book::zookeeper#check-the-lease-in-a-transaction\n\
         [zookeeper#let-others-look]: crate::book::zookeeper#let-others-look\n\
         [zookeeper#sessions-and-ttls]: crate::book::zookeeper#sessions-and-ttls\n\
         [zookeeper#tls]: crate::book::zookeeper#tls\n"
    };
}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/tutorial/crash.md")]
pub mod crash {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/tutorial/fencing-column.md")]
pub mod fencing_column {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/tutorial/first-lock.md")]
pub mod first_lock {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/alerting.md")]
pub mod alerting {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/cron.md")]
pub mod cron {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/deploys.md")]
pub mod deploys {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/kubernetes.md")]
pub mod kubernetes {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/managed.md")]
pub mod managed {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/migration.md")]
pub mod migration {}

// Its code is tested in the package of the tests, which has the crates that it uses.
#[cfg(not(doctest))]
#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/postgresql.md")]
pub mod postgresql {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/readers-writers-permits.md")]
pub mod readers_writers_permits {}

// Its code is tested in the package of the tests, which has the crates that it uses.
#[cfg(not(doctest))]
#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/seeing-locks.md")]
pub mod seeing_locks {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/servers.md")]
pub mod servers {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/testing.md")]
pub mod testing {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/threads.md")]
pub mod threads {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/troubleshooting.md")]
pub mod troubleshooting {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/ttl-and-wait.md")]
pub mod ttl_and_wait {}

// Its code is tested in the package of the tests, which has the crates that it uses.
#[cfg(not(doctest))]
#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/web.md")]
pub mod web {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/attribute.md")]
pub mod attribute {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/cli.md")]
pub mod cli {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/errors.md")]
pub mod errors {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/manager.md")]
pub mod manager {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/metrics.md")]
pub mod metrics {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/permissions.md")]
pub mod permissions {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/protocol.md")]
pub mod protocol {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/urls.md")]
pub mod urls {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/reference/versions.md")]
pub mod versions {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/explanation/alternatives.md")]
pub mod alternatives {}

// Its code is tested in the package of the tests, which has the crates that it uses.
#[cfg(not(doctest))]
#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/etcd.md")]
pub mod etcd {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/explanation/fencing.md")]
pub mod fencing {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/explanation/guarantees.md")]
pub mod guarantees {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/explanation/how-it-works.md")]
pub mod how_it_works {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/explanation/quorum.md")]
pub mod quorum {}

#[doc = links!()]
#[doc = include_str!("../docs/book/src/explanation/which-store.md")]
pub mod which_store {}

// Its code is tested in the package of the tests, which has the crates that it uses.
#[cfg(not(doctest))]
#[doc = links!()]
#[doc = include_str!("../docs/book/src/how-to/zookeeper.md")]
pub mod zookeeper {}
