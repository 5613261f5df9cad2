//! Locks that end with a transaction.

use std::time::Duration;

use dlock_postgres::{Adoption, FenceError};
use dlock_testkit::eventually;

use crate::{
    database::{DEADLINE, Database},
    isolation::lock_in::cases_of_lock_in,
};

cases_of_lock_in! { Database }

#[tokio::test]
async fn a_lock_that_no_transaction_adopts_is_released_whatever_its_min_hold_is() {
    let database = Database::new().await;
    let manager = database.manager().await;
    let request = manager.lock("account:7").min_hold(Duration::from_secs(2));
    let adoption: Result<_, FenceError> = Adoption::acquire(request).await;
    let held = "SELECT count(*) FROM dlock.holder";
    assert_eq!(database.number(held).await, 1);
    drop(adoption.unwrap());
    // The row of a lease that has ended by time would still be there.
    let is_released = async || database.number(held).await == 0;
    eventually(DEADLINE, "the lock is released", is_released).await;
}
