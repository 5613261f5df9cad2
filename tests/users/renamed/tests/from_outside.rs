//! A crate that knows dlock only through what another one hands on.

#![deny(warnings)]

use user_renamed::prelude::{LockManager, distributed_lock, mutual_exclusion::with_manager};

user_renamed::locked!("outside:<id>", made(id: u32) {
    id + 1
});

#[distributed_lock(key = "outside", crate = user_renamed::prelude::locks)]
async fn direct() -> Result<u8, user_renamed::prelude::LockError> {
    Ok(1)
}

#[tokio::test]
async fn locks_of_another_crate() {
    let manager = LockManager::memory();
    with_manager(manager.clone(), async {
        assert_eq!(made(1).await.unwrap(), Some(2));
        let guard = manager.lock("outside:1").acquire().await.unwrap();
        assert_eq!(made(1).await.unwrap(), None, "somebody else holds it");
        guard.release().await.unwrap();
        assert_eq!(direct().await.unwrap(), 1);
    })
    .await;
}
