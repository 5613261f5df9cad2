use std::{future::Future, pin::Pin, time::Duration};

use dlock::{LockKey, Wait, distributed_lock};

use crate::shop::{Error, Result, Shop, locks};

#[distributed_lock(key = "report:<day>", wait = never)]
pub async fn report_$N(shop: &Shop, day: u32) -> Result<String> {
    //+ let key = LockKey::builder().text("report:").part(&day).build()?;
    //+ let guard = locks()?.lock(key).wait(Wait::Never).acquire().await?;
    //+ let output = guard.run_while_held(async move {
    let total = shop.load(u64::from(day)).await?;
    let report = format!("day {day}: {total} of $N");
    shop.tell(&report).await?;
    Ok(report)
    //+ }).await?;
    //+ guard.release().await?;
    //+ output
}

pub type Job<'a> = Pin<Box<dyn Future<Output = Result<String>> + 'a>>;

pub fn all<'a>(shop: &'a Shop, number: u64, text: &'a str) -> Vec<Job<'a>> {
    vec![

        Box::pin(report_$N(shop, number as u32 + $N)),

    ]
}
