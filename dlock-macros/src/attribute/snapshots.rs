//! Expansions of typical functions as readable files.
//!
//! `UPDATE_EXPECT=1 cargo test -p dlock-macros` rewrites them; read the difference.

use expect_test::{ExpectFile, expect_file};

use super::run;

/// Compares the expansion of a function with a file.
#[expect(clippy::needless_pass_by_value, reason = "it is made for one call")]
fn check(arguments: &str, item: &str, expected: ExpectFile) {
    let expansion = run(
        arguments.parse().expect("tokens"),
        item.parse().expect("tokens"),
    );
    let is_method = item.contains("self");
    let file = if is_method {
        quote::quote!(impl Shop { #expansion })
    } else {
        expansion
    };
    let file = syn::parse2(file).expect("an item");
    expected.assert_eq(&prettyplease::unparse(&file));
}

macro_rules! snapshots {
    ($($name:ident: $arguments:literal, $item:literal;)*) => { $(
        #[test]
        fn $name() {
            let expected = expect_file![concat!("snapshots/", stringify!($name), ".rs")];
            check($arguments, $item, expected);
        }
    )* };
}

snapshots! {
    one_placeholder: r#"key = "order:<id>", ttl = "30s""#,
        "/// Settles an order.
        pub async fn settle(id: u64) -> Result<Receipt, OrderError> {
            let order = load(id).await?;
            order.settle().await
        }";
    no_placeholder: r#"key = "nightly-report", wait = never"#,
        "async fn report() -> anyhow::Result<()> { write().await }";
    several_placeholders: r#"key = "shop:<shop.name>/<id>/<line.0>""#,
        "async fn pack(shop: &Shop, Path(id): Path<u64>, line: (u32, u8)) -> Result<(), Error> {
            shop.pack(id, line).await
        }";
    several_keys: r#"key = ["account:<from>", "account:<to>"], lease = lease"#,
        "/// Moves money.
        pub async fn transfer(from: u64, to: u64, cents: u64) -> Result<(), Error> {
            book(from, to, cents, lease).await
        }";
    method: r#"key = "stock:<self.name>", manager = self.locks, lease = lease"#,
        "pub(crate) async fn take(&mut self, count: u32) -> Result<u32, Error> {
            self.store.take(count, lease.fencing_token()).await?;
            Ok(count)
        }";
    skipped_when_busy:
        r#"key = "job:<name>", wait = "2s", min_hold = "10s", on_busy = Ok(Outcome::Skipped)"#,
        "async fn job(name: &str) -> Result<Outcome, Error> { run(name).await }";
    job_that_is_skipped: r#"key = "report:<day>", on_busy = skip, metric = "report""#,
        "/// Writes the report of a day.
        pub async fn report(day: u32) -> Result<Option<Report>, Error> { write(day).await.map(Some) }";
    switched_off_at_times: r#"key = "order:<id>", enabled = self.has_replicas, on_cancel = detach"#,
        "/// Settles an order.
        pub async fn settle(self, id: u64) -> Result<(), Error> { self.store.settle(id).await }";
    without_result: r#"key = "cache:<key>", on_error = |error| warn!(%error, "not refreshed")"#,
        "async fn refresh(key: String) { fetch(&key).await; }";
    computed_options:
        r#"key = "job", ttl = TTL, wait = job.patience(), max_hold = Self::LIMIT, on_lost = finish"#,
        "async fn work(&self, job: Job) -> Result<(), Error> { job.run().await }";
    shared: r#"key = "catalog:<self.shop>", mode = shared, wait = "2s""#,
        "/// Reads the catalog.
        pub async fn read(&self) -> Result<Catalog, Error> { self.store.read().await }";
    computed_permits: r#"key = "api:<tenant.id>", permits = tenant.calls()"#,
        "async fn call(tenant: &Tenant) -> Result<(), Error> { tenant.call().await }";
    list_with_shared:
        r#"key = ["order:<id>", shared("tenant:<tenant>")], permits = LINES, metric = "order""#,
        "/// Settles an order.
        pub async fn settle(id: u64, tenant: &str) -> Result<(), Error> { store(id, tenant).await }";
    detached: r#"key = "payment:<id>", on_cancel = detach"#,
        "async fn pay(id: u64, card: Card, _timer: Timer) -> Result<Receipt, Error> {
            card.charge(id).await
        }";
    boxed_by_async_trait: r#"key = "order:<id>""#,
        "fn settle<'life0, 'async_trait>(&'life0 self, id: u64)
            -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = Result<(), Error>>
                + ::core::marker::Send + 'async_trait>>
        where 'life0: 'async_trait, Self: 'async_trait {
            Box::pin(async move {
                let __self = self;
                let id = id;
                let __ret: Result<(), Error> = { __self.store.settle(id).await };
                #[allow(unreachable_code)] __ret
            })
        }";
    generic: r#"key = "import:<source>", crate = crate::locks"#,
        "pub async fn import<S, const N: usize>(source: &S) -> Result<impl Iterator<Item = Row>, Error>
        where S: Source + KeyPart { Ok(source.rows::<N>().await?.into_iter()) }";
    misspelt: r#"key = "order:<idd>", ttl = "30""#,
        "async fn settle(id: u64) -> Result<(), Error> { store(id).await }";
}
