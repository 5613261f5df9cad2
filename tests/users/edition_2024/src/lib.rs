//! A user of the attribute in edition 2024.

#![deny(warnings, future_incompatible, rust_2018_idioms)]

#[path = "../../shared/shop.rs"]
pub mod shop;

/// What earlier editions do not accept, or do differently.
pub mod since_2024 {
    use crate::shop::Result;
    use dlock::distributed_lock;
    use std::cell::RefCell;

    pub struct Counter {
        pub r#gen: u8,
    }

    #[distributed_lock(key = "gen:<r#gen>:<counter.gen>", lease = lease)]
    pub async fn generation(r#gen: u8, counter: &Counter) -> Result<String> {
        Ok(format!("{} {}", lease.key(), r#gen + counter.r#gen))
    }

    // The borrow at the end outlives `log` before this edition.
    #[distributed_lock(key = "log")]
    pub async fn temporaries_at_the_end(id: u8) -> Result<u8> {
        let log = RefCell::new(vec![id]);
        Ok(*log.borrow().first().unwrap_or(&0))
    }

    // The borrow of the condition lasts until after the `else` before this edition.
    #[distributed_lock(key = "log:<id>")]
    pub async fn conditions(id: u8) -> Result<u8> {
        let log = RefCell::new(Vec::new());
        if let Some(first) = log.borrow().first().copied() {
            Ok(first)
        } else {
            log.borrow_mut().push(id);
            if log.borrow().len() == 1
                && let Some(only) = log.borrow().first()
            {
                return Ok(*only);
            }
            Ok(0)
        }
    }

    // What is returned captures `names` without saying so.
    #[distributed_lock(key = "names")]
    pub async fn captured(names: &[u8]) -> Result<impl Iterator<Item = u8>> {
        Ok(names.iter().map(|name| name + 1))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use dlock::{LockManager, with_manager};

        #[tokio::test]
        async fn run() {
            with_manager(LockManager::memory(), async {
                let counter = Counter { r#gen: 4 };
                assert_eq!(generation(3, &counter).await.unwrap(), "gen:3:4 7");
                assert_eq!(temporaries_at_the_end(5).await.unwrap(), 5);
                assert_eq!(conditions(6).await.unwrap(), 6);
                let names = [1, 2];
                let captured: Vec<u8> = captured(&names).await.unwrap().collect();
                assert_eq!(captured, [2, 3]);
            })
            .await;
        }
    }
}
