use std::{future::Future, pin::Pin, time::Duration};

use dlock::{LockKey, Wait, distributed_lock};

use crate::shop::{Error, Result, Shop, locks};

#[distributed_lock(key = "order:<id>", ttl = "30s")]
pub async fn settle_$N(shop: &Shop, id: u64, amount: u64) -> Result<u64> {
    //+ let key = LockKey::builder().text("order:").part(&id).build()?;
    //+ let guard = locks()?.lock(key).ttl(Duration::from_secs(30)).acquire().await?;
    //+ let output = guard.run_while_held(async move {
    let open = shop.load(id).await?;
    if open < amount + $N {
        return Err(Error::Refused);
    }
    shop.save(id, open - amount).await?;
    Ok(open - amount)
    //+ }).await?;
    //+ guard.release().await?;
    //+ output
}

pub type Job<'a> = Pin<Box<dyn Future<Output = Result<u64>> + 'a>>;

pub fn all<'a>(shop: &'a Shop, number: u64, text: &'a str) -> Vec<Job<'a>> {
    vec![

        Box::pin(settle_$N(shop, number + $N, number / 3)),

    ]
}
