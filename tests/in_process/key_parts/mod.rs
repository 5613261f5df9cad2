//! What `#[derive(KeyPart)]` makes of a type, seen from the rendered key.

#![deny(warnings, clippy::pedantic)]
#![deny(
    missing_docs,
    private_bounds,
    private_interfaces,
    single_use_lifetimes,
    unreachable_pub,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    clippy::nursery
)]
// Types contain themselves by name; the other contradicts `unreachable_pub`.
#![allow(clippy::use_self, clippy::redundant_pub_crate)]

mod enums;
mod generics;
mod names;
mod structs;

use dlock::{
    InvalidKeyReason, KeyPart, LockError, LockKey, LockManager, distributed_lock, with_manager,
};

/// `value` as it stands in a key.
fn rendered(value: &dyn KeyPart) -> String {
    let key = LockKey::builder().text("k:").part(value).build();
    let key = key.expect("it is a valid key");
    key.as_str()
        .strip_prefix("k:")
        .expect("as built")
        .to_owned()
}

fn fault(value: &dyn KeyPart) -> InvalidKeyReason {
    let error = LockKey::builder().part(value).build();
    match error.expect_err("it has a fault") {
        LockError::InvalidKey { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

#[derive(KeyPart, Clone)]
struct Tenant(String);

#[derive(KeyPart, Clone, Copy)]
#[key_part(rename_all = "kebab-case")]
enum Step {
    TakeMoney,
}

#[derive(KeyPart)]
struct Order {
    tenant: Tenant,
    number: u64,
    #[key_part(skip)]
    step: Step,
}

#[distributed_lock(key = "order:<order>/<order.step>", lease = lease)]
async fn settle(order: &Order) -> Result<String, LockError> {
    Ok(lease.key().to_string())
}

#[tokio::test]
async fn a_struct_is_one_value_of_the_key() {
    let order = Order {
        tenant: Tenant("a:b".to_owned()),
        number: 7,
        step: Step::TakeMoney,
    };
    let key = with_manager(LockManager::memory(), settle(&order)).await;
    assert_eq!(key.as_deref(), Ok("order:a%253Ab%3a7/take-money"));
}
