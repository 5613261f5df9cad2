use std::{future::Future, pin::Pin, time::Duration};

use dlock::{LockKey, Wait, distributed_lock};

use crate::shop::{Error, Result, Shop, locks};

impl Shop {

    #[distributed_lock(key = "import:<self.tenant>", ttl = "30s", wait = "5s", manager = self.locks)]
    pub async fn import_$N(&self, orders: Vec<u64>) -> Result<()> {
        //+ let key = LockKey::builder().text("import:").part(&self.tenant).build()?;
        //+ let guard = self.locks.lock(key).ttl(Duration::from_secs(30)).wait(Duration::from_secs(5)).acquire().await?;
        //+ let output = guard.run_while_held(async move {
        for order in orders {
            match self.load(order).await {
                Ok(amount) => self.save(order, amount + $N).await?,
                Err(Error::Missing(id)) => self.save(id, 0).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
        //+ }).await?;
        //+ guard.release().await?;
        //+ output
    }

}

pub type Job<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

pub fn all<'a>(shop: &'a Shop, number: u64, text: &'a str) -> Vec<Job<'a>> {
    vec![

        Box::pin(shop.import_$N(vec![number + $N; 3])),

    ]
}
