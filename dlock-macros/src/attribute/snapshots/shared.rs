impl Shop {
    /// Reads the catalog.
    ///
    /// Holds the lock `catalog:<self.shop>` while it runs; `mode` shared, `wait` 2s.
    pub async fn read(&self) -> Result<Catalog, Error> {
        let __error: ::dlock::__private::LockError = 'locked: {
            let __site = ::dlock::__private::site!(
                "read", ["catalog:<self.shop>"],
                [.mode(::dlock::__private::LockMode::Shared)
                .wait(::dlock::__private::Wait::For(::core::time::Duration::from_millis(2000u64)))],
                []
            );
            #[allow(clippy::used_underscore_binding)]
            let __acquiring = ::dlock::__private::acquire(
                __site,
                __site.options(),
                ::core::option::Option::None,
                ::dlock::__private::key(
                    "catalog:<self.shop>",
                    &[
                        ::dlock::__private::text("catalog:"),
                        ::dlock::__private::part(&self.shop),
                    ],
                ),
            );
            let __guard = match __acquiring.await {
                ::core::result::Result::Ok(__guard) => __guard,
                ::core::result::Result::Err(__error) => break 'locked __error,
            };
            let __output = ::dlock::__private::LockGuard::run_while_held(
                    &__guard,
                    async move {
                        if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<
                            Result<Catalog, Error>,
                        > {
                            return __output;
                        }
                        #[allow(clippy::used_underscore_binding)]
                        {
                            let _ = &self;
                        }
                        '__body: { self.store.read().await }
                    },
                )
                .await;
            match ::dlock::__private::finish(__guard, __output).await {
                ::core::result::Result::Ok(__value) => return __value,
                ::core::result::Result::Err(__error) => __error,
            }
        };
        return <Result<
            Catalog,
            Error,
        > as ::dlock::__private::Fallible>::from_lock_error(__error);
    }
}
