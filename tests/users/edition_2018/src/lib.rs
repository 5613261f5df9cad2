//! A user of the attribute in edition 2018, ready for the next ones.

#![deny(
    warnings,
    future_incompatible,
    rust_2018_idioms,
    rust_2021_compatibility,
    rust_2024_compatibility
)]

#[path = "../../shared/shop.rs"]
pub mod shop;

/// What is written differently in later editions.
pub mod before_2021 {
    use crate::shop::Result;
    use dlock::distributed_lock;

    // A keyword of edition 2024.
    #[allow(keyword_idents_2024)]
    #[distributed_lock(key = "gen:<gen>", lease = lease)]
    pub async fn generation(gen: u8) -> Result<String> {
        Ok(format!("{} {gen}", lease.key()))
    }

    // `TryInto` is not in the prelude, and a trait object may do without `dyn` in a macro's input.
    #[distributed_lock(key = "<id>", max_hold = "5m", on_lost = finish)]
    pub async fn converted(id: u64) -> Result<u8, Box<dyn std::error::Error>> {
        use std::convert::TryInto;
        Ok(id.try_into()?)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use dlock::{with_manager, LockManager};

        #[tokio::test]
        async fn run() {
            with_manager(LockManager::memory(), async {
                assert_eq!(generation(3).await.unwrap(), "gen:3 3");
                assert_eq!(converted(3).await.unwrap(), 3);
                assert!(converted(300).await.is_err());
            })
            .await;
        }
    }
}
