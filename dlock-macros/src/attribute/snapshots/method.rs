impl Shop {
    #[cfg_attr(doc, doc = "Holds the lock `stock:<self.name>` while it runs.")]
    pub(crate) async fn take(&mut self, count: u32) -> Result<u32, Error> {
        let error: ::dlock::__private::LockError = 'locked: {
            let site = ::dlock::__private::site!("take", "stock:<self.name>", [], []);
            #[allow(clippy::used_underscore_binding)]
            let acquiring = ::dlock::__private::acquire(
                site,
                site.options(),
                ::core::option::Option::Some {
                    0: &self.locks,
                },
                ::dlock::__private::key(
                    "stock:<self.name>",
                    &[
                        ::dlock::__private::text("stock:"),
                        ::dlock::__private::part(&self.name),
                    ],
                ),
            );
            let guard = match acquiring.await {
                ::core::result::Result::Ok(guard) => guard,
                ::core::result::Result::Err(error) => break 'locked error,
            };
            let lease = guard.lease();
            let output = guard
                .watch(async move {
                    if let ::core::option::Option::Some(output) = ::core::option::Option::None::<
                        Result<u32, Error>,
                    > {
                        return output;
                    }
                    #[allow(clippy::used_underscore_binding)]
                    {
                        let _ = &self;
                        let _ = &count;
                    }
                    let lease = lease;
                    {
                        self.store.take(count, lease.fencing_token()).await?;
                        Ok(count)
                    }
                })
                .await;
            let released = guard.release().await;
            match ::dlock::__private::settle(output, released) {
                ::core::result::Result::Ok(value) => return value,
                ::core::result::Result::Err(error) => error,
            }
        };
        return <Result<
            u32,
            Error,
        > as ::dlock::__private::Fallible>::from_lock_error(error);
    }
}
