use std::{future::Future, pin::Pin, time::Duration};

use dlock::{LockKey, Wait, distributed_lock};

use crate::shop::{Error, Result, Shop, locks};

impl Shop {

    #[distributed_lock(key = "transfer:<from>/<to>", wait = "5s", manager = self.locks)]
    pub async fn transfer_$N(&self, from: u64, to: u64) -> Result<()> {
        //+ let key = LockKey::builder().text("transfer:").part(&from).text("/").part(&to).build()?;
        //+ let guard = self.locks.lock(key).wait(Duration::from_secs(5)).acquire().await?;
        //+ let output = guard.run_while_held(async move {
        let amount = self.load(from).await?;
        self.save(from, 0).await?;
        let before = self.load(to).await.unwrap_or($N);
        self.save(to, before + amount).await
        //+ }).await?;
        //+ guard.release().await?;
        //+ output
    }

}

pub type Job<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

pub fn all<'a>(shop: &'a Shop, number: u64, text: &'a str) -> Vec<Job<'a>> {
    vec![

        Box::pin(shop.transfer_$N(number + $N, number * 2)),

    ]
}
