use dlock::{
    LockKey, LockStore, OwnerId, StoreError,
    store::{
        AcquireOutcome, AcquireRequest, Released, RenewBatch, Renewal, StoreProperties,
        memory::MemoryStore, quorum::Quorum,
    },
};

struct Plain(MemoryStore);

impl LockStore for Plain {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.0.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        self.0.renew(batch).await
    }

    async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
        self.0.release(key, owner).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.0.properties()
    }
}

fn main() {
    let quorum = Quorum::of([(); 3].map(|()| Plain(MemoryStore::new())));
    drop(quorum);
}
