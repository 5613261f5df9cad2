//! A user of the attribute in edition 2021, ready for the next one.

#![deny(
    warnings,
    future_incompatible,
    rust_2018_idioms,
    rust_2024_compatibility
)]

#[path = "../../shared/shop.rs"]
pub mod shop;

/// What is written differently in other editions.
pub mod before_2024 {
    use crate::shop::Result;
    use dlock::distributed_lock;

    pub struct Counter {
        pub r#gen: u8,
    }

    // A keyword of edition 2024, also as a field.
    #[allow(keyword_idents_2024)]
    #[distributed_lock(key = "gen:<gen>:<counter.gen>", lease = lease)]
    pub async fn generation(gen: u8, counter: &Counter) -> Result<String> {
        Ok(format!("{} {}", lease.key(), gen + counter.r#gen))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use dlock::{with_manager, LockManager};

        #[tokio::test]
        async fn run() {
            with_manager(LockManager::memory(), async {
                let counter = Counter { r#gen: 4 };
                assert_eq!(generation(3, &counter).await.unwrap(), "gen:3:4 7");
            })
            .await;
        }
    }
}
