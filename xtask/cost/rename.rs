use std::{future::Future, pin::Pin, time::Duration};

use dlock::{LockKey, Wait, distributed_lock};

use crate::shop::{Error, Result, Shop, locks};

#[distributed_lock(key = "customer:<customer>")]
pub async fn rename_$N(shop: &Shop, customer: u64, name: String) -> Result<String> {
    //+ let key = LockKey::builder().text("customer:").part(&customer).build()?;
    //+ let guard = locks()?.lock(key).acquire().await?;
    //+ let output = guard.run_while_held(async move {
    let visits = shop.load(customer).await?;
    shop.save(customer, visits + $N).await?;
    shop.tell(&name).await?;
    Ok(name)
    //+ }).await?;
    //+ guard.release().await?;
    //+ output
}

pub type Job<'a> = Pin<Box<dyn Future<Output = Result<String>> + 'a>>;

pub fn all<'a>(shop: &'a Shop, number: u64, text: &'a str) -> Vec<Job<'a>> {
    vec![

        Box::pin(rename_$N(shop, number + $N, text.to_owned())),

    ]
}
