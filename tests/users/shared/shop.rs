//! Locked functions as a service has them, in the syntax that all editions know.
//!
//! Most answer with the key of their lease: that shows that the lock was held, and which.

use std::{error::Error, fmt, future::Future, pin::Pin, time::Duration};

use async_trait::async_trait;
use dlock::distributed_lock;
use dlock::{Lease, LockError, LockManager};

/// An error as services have: lock failures are one case among others.
#[derive(Debug)]
pub enum ShopError {
    /// The lock could not be had.
    Lock(LockError),
    /// There is no such order.
    Missing(u64),
}

impl fmt::Display for ShopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => write!(f, "no lock: {error}"),
            Self::Missing(id) => write!(f, "no order {id}"),
        }
    }
}

impl Error for ShopError {}

impl From<LockError> for ShopError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

pub type Result<T, E = ShopError> = std::result::Result<T, E>;

fn key(lease: &Lease) -> String {
    lease.key().as_str().to_owned()
}

#[distributed_lock(key = "order:<id>", ttl = "30s", wait = "1s", lease = lease)]
pub async fn settle(id: u64) -> Result<String> {
    if id == 0 {
        return Err(ShopError::Missing(id));
    }
    std::future::ready(()).await;
    Ok(key(lease))
}

#[distributed_lock(key = "stock:<shelf>/<items.0>", lease = held)]
pub async fn restock<T, const N: usize>(
    shelf: impl AsRef<str> + dlock::KeyPart,
    items: (u32, [T; N]),
) -> Result<(String, usize)>
where
    T: Clone,
{
    let (_, items) = items;
    Ok((key(held), items.len() + shelf.as_ref().len()))
}

#[distributed_lock(key = ["stock:<from>", "stock:<to>"], wait = "1s", lease = lease)]
pub async fn rearrange(from: &str, to: &str) -> Result<String> {
    std::future::ready((from, to)).await;
    let keys: Vec<_> = lease
        .fencing_tokens()
        .map(|(key, _)| key.as_str())
        .collect();
    Ok(keys.join(" "))
}

/// On a thread that blocks; what is borrowed comes back.
#[distributed_lock(key = "shelf:<shelf.0>", lease = held, on_lost = finish)]
pub fn take<'a>(shelf: &'a mut (u32, Vec<String>), wanted: &str) -> Result<Option<&'a mut String>> {
    held.ensure_held()?;
    let (_, articles) = shelf;
    Ok(articles.iter_mut().find(|article| *article == wanted))
}

pub struct Customer {
    pub id: u64,
    pub name: String,
}

#[distributed_lock(key = "customer:<id>:<r#type>:<last>", lease = lease)]
pub async fn rename(
    Customer { id, name }: Customer,
    r#type: char,
    [_, last]: [u8; 2],
    mut names: Vec<String>,
) -> Result<(String, Vec<String>)> {
    names.push(format!("{name}{id}{last}{}", r#type));
    Ok((key(lease), names))
}

pub struct Shop {
    pub tenant: String,
    pub patience: Duration,
    pub locks: LockManager,
}

impl Shop {
    #[distributed_lock(
        key = "shop:<self.tenant>/<order>",
        manager = self.locks,
        ttl = self.patience * 2,
        wait = self.patience,
        lease = lease
    )]
    pub async fn ship(&self, order: &str) -> Result<String> {
        let _ = order;
        Ok(key(lease))
    }

    #[distributed_lock(key = "shop:<self.tenant>", manager = &self.locks, wait = never)]
    pub async fn grow(&mut self) -> Result<&mut String> {
        self.tenant.push('s');
        Ok(&mut self.tenant)
    }

    #[distributed_lock(
        key = "shop:<self.tenant>",
        manager = self.locks,
        wait = never,
        on_busy = None,
        on_error = |error| Some(error.to_string())
    )]
    pub async fn look(&self) -> Option<String> {
        Some(self.tenant.clone())
    }
}

#[async_trait]
pub trait Till: Send + Sync {
    async fn take(&self, id: u64, pair: (u8, u8)) -> Result<String>;

    #[distributed_lock(key = "till", crate = dlock)]
    async fn close(&self) -> Result<usize> {
        Ok(1)
    }
}

#[async_trait]
impl Till for Shop {
    #[distributed_lock(key = "till:<self.tenant>:<id>", manager = self.locks, lease = lease)]
    async fn take(&self, id: u64, (a, b): (u8, u8)) -> Result<String> {
        if a > b {
            return Err(ShopError::Missing(id));
        }
        Ok(key(lease))
    }
}

#[distributed_lock(key = "boxed:<id>", lease = lease)]
pub fn boxed(id: &u64) -> Pin<Box<dyn Future<Output = Result<String>> + Send + '_>> {
    let next = id + 1;
    Box::pin(async move {
        if next == 1 {
            return Err(ShopError::Missing(next));
        }
        Ok(key(lease))
    })
}

macro_rules! locked {
    ($(#[$meta:meta])* $name:ident($id:ident: $ty:ty), $key:literal, $ttl:expr_2021, $body:block) => {
        $(#[$meta])*
        #[distributed_lock(key = $key, ttl = $ttl)]
        pub async fn $name($id: $ty) -> Result<$ty> $body
    };
}

locked!(
    #[inline]
    made(id: u32), "made:<id>", Duration::from_secs(1), { Ok(id + 1) }
);

/// Says when it is dropped whether `manager` held a lock.
pub struct Witness(
    pub LockManager,
    pub std::sync::mpsc::Sender<(char, bool)>,
    pub char,
);

impl Drop for Witness {
    fn drop(&mut self) {
        self.1
            .send((self.2, self.0.active_keys() > 0))
            .expect("the test listens");
    }
}

#[distributed_lock(key = "witness", manager = used.0.0)]
pub async fn witnessed(used: (Witness, Witness), _unused: Witness) -> Result<()> {
    let _first = used.0;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `future` with a manager of its own, and checks that it leaves nothing locked.
    async fn alone<F: Future>(future: F) -> F::Output {
        let manager = LockManager::memory();
        let output = dlock::with_manager(manager.clone(), future).await;
        assert_eq!(manager.active_keys(), 0, "something is still locked");
        output
    }

    fn shop() -> Shop {
        Shop {
            tenant: "nord".to_owned(),
            patience: Duration::from_secs(1),
            locks: LockManager::memory(),
        }
    }

    #[tokio::test]
    async fn functions() {
        alone(async {
            assert_eq!(settle(7).await.unwrap(), "order:7");
            assert!(matches!(settle(0).await, Err(ShopError::Missing(0))));
            let (key, len) = restock("a/b", (4, ['x'; 2])).await.unwrap();
            assert_eq!((key.as_str(), len), ("stock:a%2Fb/4", 5));
            let keys = rearrange("b", "a").await.unwrap();
            assert_eq!(keys, "stock:b stock:a");
            let customer = Customer {
                id: 3,
                name: "Ada".to_owned(),
            };
            let (key, names) = rename(customer, 'k', [0, 9], vec![]).await.unwrap();
            assert_eq!(
                (key.as_str(), names),
                ("customer:3:k:9", vec!["Ada39k".to_owned()])
            );
            assert_eq!(boxed(&5).await.unwrap(), "boxed:5");
            assert!(matches!(boxed(&0).await, Err(ShopError::Missing(1))));
            assert_eq!(made(1).await.unwrap(), 2);
        })
        .await;
    }

    #[tokio::test]
    async fn methods() {
        let mut shop = shop();
        assert_eq!(shop.ship("1:2").await.unwrap(), "shop:nord/1%3A2");
        assert_eq!(shop.grow().await.unwrap(), "nords");
        assert_eq!(shop.look().await.as_deref(), Some("nords"));
        let guard = shop.locks.lock("shop:nords").acquire().await.unwrap();
        assert_eq!(shop.look().await, None);
        guard.release().await.unwrap();
        assert_eq!(shop.locks.active_keys(), 0);
    }

    #[tokio::test]
    async fn methods_of_async_traits() {
        let shop: Box<dyn Till> = Box::new(shop());
        assert_eq!(shop.take(2, (3, 4)).await.unwrap(), "till:nord:2");
        assert!(matches!(
            shop.take(2, (4, 3)).await,
            Err(ShopError::Missing(2))
        ));
        assert_eq!(alone(shop.close()).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn arguments_drop_under_the_lock() {
        let manager = LockManager::memory();
        let (sender, seen) = std::sync::mpsc::channel();
        let witness = |name| Witness(manager.clone(), sender.clone(), name);
        let (used, unused) = ((witness('a'), witness('b')), witness('c'));
        witnessed(used, unused).await.unwrap();
        let mut seen: Vec<_> = seen.try_iter().collect();
        seen.sort_unstable();
        assert_eq!(seen, [('a', true), ('b', true), ('c', true)]);
    }
}
