use std::{future::Future, pin::Pin, time::Duration};

use dlock::{LockKey, Wait, distributed_lock};

use crate::shop::{Error, Result, Shop, locks};

impl Shop {

    #[distributed_lock(key = "account:<self.tenant>:<account>", ttl = "30s", manager = self.locks)]
    pub async fn charge_$N(&self, account: u64, amount: u64) -> Result<u64> {
        //+ let key = LockKey::builder().text("account:").part(&self.tenant).text(":").part(&account).build()?;
        //+ let guard = self.locks.lock(key).ttl(Duration::from_secs(30)).acquire().await?;
        //+ let output = guard.run_while_held(async move {
        let balance = self.load(account).await?.saturating_sub(amount + $N);
        self.save(account, balance).await?;
        if balance == 0 {
            self.tell("empty").await?;
        }
        Ok(balance)
        //+ }).await?;
        //+ guard.release().await?;
        //+ output
    }

}

pub type Job<'a> = Pin<Box<dyn Future<Output = Result<u64>> + 'a>>;

pub fn all<'a>(shop: &'a Shop, number: u64, text: &'a str) -> Vec<Job<'a>> {
    vec![

        Box::pin(shop.charge_$N(number + $N, 7)),

    ]
}
