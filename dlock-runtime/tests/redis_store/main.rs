//! The Redis store against a real server: what the scripts do, what is answered when a server
//! refuses, and what becomes of the connection.
#![cfg(feature = "redis")]
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of tests may fail as tests do"
)]

mod advice;
mod connection;
mod counting;
mod floods;
mod lasting;
#[path = "../../src/telemetry/log.rs"]
mod log;
mod outages;
mod protocol;
mod publishing;
mod raw_keys;
mod reference;
mod refusals;
mod runtimes;
mod sharing;
mod start_up;
mod subscriptions;
mod writable_replicas;

use std::time::Duration;

use dlock_runtime::{
    LockKey,
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Holder, LockStore, OwnerId, Queue,
        ReleaseRequest, RenewRequest, StoreError,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::{Make, RedisServer};
use redis::aio::MultiplexedConnection;

/// Makes a test of every case for every make of server: they differ in what they say when they
/// refuse, and older ones in what they know.
macro_rules! for_every_make {
    ($($module:ident { $($case:ident,)* })*) => {
        mod usual {
            $($(
                #[tokio::test]
                async fn $case() {
                    crate::$module::$case(dlock_testkit::Make::Usual).await;
                }
            )*)*
        }
        mod valkey {
            $($(
                #[tokio::test]
                async fn $case() {
                    crate::$module::$case(dlock_testkit::Make::Valkey).await;
                }
            )*)*
        }
        mod old_redis {
            $($(
                #[tokio::test]
                async fn $case() {
                    crate::$module::$case(dlock_testkit::Make::OldRedis).await;
                }
            )*)*
        }
    };
}

for_every_make! {
    protocol {
        a_lock_is_taken_once_and_given_back,
        asking_again_finds_ones_own_lock,
        waiters_are_served_in_their_order,
        a_free_lock_goes_to_who_waits_first,
        a_grant_by_a_caller_counts_and_leaves_the_queue,
        a_grant_by_a_release_counts,
        a_release_grants_nothing_to_its_own_owner,
        a_waiter_that_was_told_of_a_release_keeps_its_place_for_a_second,
        a_fence_too_great_in_a_lock_is_not_believed,
        an_owner_whose_id_begins_alike_is_another,
        a_grant_is_short_whoever_gives_it,
        fences_grow_even_when_the_server_forgets,
        nothing_stays_behind_when_everybody_dies,
        a_foreign_value_is_held_by_nobody_known,
        a_release_overtakes_no_acquire_that_was_given_up,
        scripts_are_sent_again_to_a_server_that_forgot_them,
        a_refusal_never_tells_less_than_the_holders_fence,
        a_lock_is_handed_on_with_more_than_the_holders_fence,
        many_leases_are_renewed_in_one_write,
        a_lease_that_was_handed_on_gets_its_label_by_a_renewal,
        databases_and_sockets_work_too,
    }
    counting {
        a_fence_is_the_servers_time_however_it_is_counted,
        a_lock_that_nobody_waits_for_costs_few_calls,
        those_that_share_a_lock_are_not_read_while_no_lease_has_ended,
        waiters_of_one_millisecond_keep_their_order,
    }
    refusals {
        passwords_are_asked_for_and_checked,
        a_wrong_password_is_not_tried_again_and_again,
        a_replica_takes_no_locks_and_does_not_say_whose_they_are,
        without_memory_locks_can_be_kept_and_given_back,
        a_master_without_its_replicas_refuses_for_a_while,
        foreign_data_is_never_touched,
        foreign_data_is_named_by_the_key_that_has_it,
        a_fence_that_cannot_be_read_gives_no_lock,
        a_release_grants_nothing_if_no_fence_can_be_counted,
        missing_permissions_are_named,
        a_lock_is_handed_on_although_nobody_may_be_told,
        few_permissions_are_enough,
    }
    advice {
        a_server_that_may_evict_locks_is_warned_of_once,
        a_server_that_does_not_say_how_it_makes_room_is_taken,
    }
    floods {
        of_a_user_who_may_run_no_scripts,
        of_a_user_who_may_not_use_the_key,
        of_a_user_who_lacks_a_command_of_a_script,
        of_a_user_who_lacks_a_command_of_every_script,
        of_a_master_without_replicas,
        of_a_server_without_memory,
        of_a_server_that_cannot_save,
        of_a_server_that_runs_somebodys_script,
    }
    raw_keys {
        a_raw_key_needs_a_pattern_of_its_own,
        foreign_data_at_a_raw_key_is_never_touched,
    }
    publishing {
        a_waiter_is_told_by_whoever_releases,
        a_waiter_is_told_by_whoever_finds_the_lock_free,
        a_waiter_that_only_wants_to_be_told_is,
        a_script_that_can_publish_does_so_alone,
    }
    sharing {
        an_exclusive_request_leaves_a_shared_lock_alone,
        a_sharing_request_leaves_an_exclusive_lock_alone,
        a_counter_that_is_lost_while_shared_is_not_behind_afterwards,
        a_busy_answer_says_when_enough_holders_will_have_left,
        a_sharer_is_kept_out_by_living_waiters_for_the_lock_alone,
        a_program_of_an_earlier_protocol_fails_at_a_shared_lock,
        who_may_not_see_the_holders_lets_in_nobody_beside_them,
        a_foreign_hash_is_never_touched,
    }
    writable_replicas {
        a_replica_that_takes_writes_grants_nothing_over_open_connections,
        a_replica_that_takes_writes_does_not_keep_a_lease,
        a_role_is_asked_for_seldom,
    }
    subscriptions {
        a_server_that_refuses_the_connection_for_hints_serves_requests,
    }
    start_up {
        a_user_who_may_not_subscribe_is_refused,
        a_server_that_runs_no_scripts_is_refused,
        a_database_that_is_not_there_is_named,
        who_gives_up_says_after_how_long,
    }
}

const TTL: Duration = Duration::from_secs(30);

/// Longer than anything here takes on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(15);

/// A request may take so long on a machine that stands still for a while.
const ANSWER: Duration = Duration::from_secs(5);

async fn connect(url: &str) -> RedisStore {
    let config = RedisConfig::new(url).response_timeout(ANSWER);
    let connected = RedisStore::connect(config.connect_timeout(DEADLINE)).await;
    connected.expect("the server is there")
}

/// A server, a store, and a connection to look behind the store's back.
async fn server_and_store(make: Make) -> (RedisServer, RedisStore, MultiplexedConnection) {
    let server = RedisServer::start_make(make).await;
    let store = connect(&server.url()).await;
    let behind = server.connection().await;
    (server, store, behind)
}

fn owner() -> OwnerId {
    OwnerId::new(ClientId::new(&SystemRandom), 1)
}

fn key(text: &str) -> LockKey {
    LockKey::new(text).unwrap()
}

fn request(key: &LockKey, owner: OwnerId) -> AcquireRequest<'_> {
    AcquireRequest::new(key, owner, TTL).label("svc@host/1")
}

fn renewal(key: &LockKey, owner: OwnerId) -> RenewRequest<'_> {
    RenewRequest::new(key, owner, TTL).label("svc@host/1")
}

async fn try_take(
    store: &RedisStore,
    key: &LockKey,
    owner: OwnerId,
) -> Result<AcquireOutcome, StoreError> {
    store.acquire(request(key, owner)).await
}

/// What the three requests of a lock are refused with, each for itself.
async fn refusals_of(store: &RedisStore, key: &LockKey, owner: OwnerId) -> [StoreError; 3] {
    let answers = [
        try_take(store, key, owner).await.err(),
        store.renew_one(renewal(key, owner)).await.err(),
        store.release(ReleaseRequest::new(key, owner)).await.err(),
    ];
    answers.map(|error| error.expect("nothing is carried out"))
}

/// Takes a lock that is free or the owner's; its fence.
async fn take(store: &RedisStore, key: &LockKey, owner: OwnerId) -> u64 {
    match try_take(store, key, owner).await.unwrap() {
        AcquireOutcome::Granted { fence, .. } => fence,
        other => panic!("`{key}` is not free: {other:?}"),
    }
}

/// Enters the queue of a lock that is held, or stays in it.
async fn queue(store: &RedisStore, key: &LockKey, owner: OwnerId) -> Holder {
    match store
        .acquire(request(key, owner).queue(Queue::ForLease))
        .await
        .unwrap()
    {
        AcquireOutcome::Busy(holder) => holder,
        other => panic!("broken promise: two hold `{key}`: {other:?}"),
    }
}

async fn run(connection: &mut MultiplexedConnection, command: &str) {
    let mut words = command.split(' ');
    let mut request = redis::cmd(words.next().unwrap());
    request
        .arg(words.collect::<Vec<_>>())
        .exec_async(connection)
        .await
        .unwrap();
}

async fn get(connection: &mut MultiplexedConnection, key: &str) -> Option<String> {
    redis::cmd("GET")
        .arg(key)
        .query_async(connection)
        .await
        .unwrap()
}
