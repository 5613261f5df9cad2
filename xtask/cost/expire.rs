use std::{future::Future, pin::Pin, time::Duration};

use dlock::{LockKey, Wait, distributed_lock};

use crate::shop::{Error, Result, Shop, locks};

#[distributed_lock(key = "order:<id>", ttl = "30s", wait = never)]
pub async fn expire_$N(shop: &Shop, id: u64) -> Result<()> {
    //+ let key = LockKey::builder().text("order:").part(&id).build()?;
    //+ let guard = locks()?.lock(key).ttl(Duration::from_secs(30)).wait(Wait::Never).acquire().await?;
    //+ let output = guard.run_while_held(async move {
    if shop.load(id).await? > $N {
        shop.save(id, 0).await?;
    }
    Ok(())
    //+ }).await?;
    //+ guard.release().await?;
    //+ output
}

pub type Job<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

pub fn all<'a>(shop: &'a Shop, number: u64, text: &'a str) -> Vec<Job<'a>> {
    vec![

        Box::pin(expire_$N(shop, number + $N)),

    ]
}
