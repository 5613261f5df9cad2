use std::{future::Future, pin::Pin, time::Duration};

use dlock::{LockKey, Wait, distributed_lock};

use crate::shop::{Error, Result, Shop, locks};

#[distributed_lock(key = "stock:<shelf>/<item>", ttl = "30s", wait = "5s")]
pub async fn restock_$N(shop: &Shop, shelf: &str, item: u64) -> Result<u64> {
    //+ let key = LockKey::builder().text("stock:").part(&shelf).text("/").part(&item).build()?;
    //+ let guard = locks()?.lock(key).ttl(Duration::from_secs(30)).wait(Duration::from_secs(5)).acquire().await?;
    //+ let output = guard.run_while_held(async move {
    let mut amount = shop.load(item).await.unwrap_or(0);
    for box_of_ten in 0..shelf.len() as u64 {
        amount += box_of_ten * 10 + $N;
        shop.save(item, amount).await?;
    }
    Ok(amount)
    //+ }).await?;
    //+ guard.release().await?;
    //+ output
}

pub type Job<'a> = Pin<Box<dyn Future<Output = Result<u64>> + 'a>>;

pub fn all<'a>(shop: &'a Shop, number: u64, text: &'a str) -> Vec<Job<'a>> {
    vec![

        Box::pin(restock_$N(shop, text, number + $N)),

    ]
}
