impl Shop {
    #[cfg_attr(doc, doc = "Holds the lock `stock:<self.name>` while it runs.")]
    pub(crate) async fn take(&mut self, count: u32) -> Result<u32, Error> {
        let __error: ::dlock::__private::LockError = 'locked: {
            let __site = ::dlock::__private::site!(
                "take", ["stock:<self.name>"], [], []
            );
            #[allow(clippy::used_underscore_binding)]
            let __acquiring = match &self.locks {
                __manager => {
                    ::dlock::__private::acquire(
                        __site,
                        __site.options(),
                        ::core::option::Option::Some {
                            0: __manager,
                        },
                        ::dlock::__private::key(
                            "stock:<self.name>",
                            &[
                                ::dlock::__private::text("stock:"),
                                ::dlock::__private::part(&self.name),
                            ],
                        ),
                    )
                }
            };
            let lease = match __acquiring.await {
                ::core::result::Result::Ok(__guard) => __guard,
                ::core::result::Result::Err(__error) => break 'locked __error,
            };
            let __lease = ::dlock::__private::LockGuard::lease(&lease);
            let __output = ::dlock::__private::LockGuard::run_while_held(
                    &lease,
                    async move {
                        if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<
                            Result<u32, Error>,
                        > {
                            return __output;
                        }
                        #[allow(clippy::used_underscore_binding)]
                        {
                            let _ = &count;
                            let _ = &self;
                        }
                        #[allow(
                            clippy::no_effect_underscore_binding,
                            clippy::shadow_reuse,
                            clippy::shadow_unrelated
                        )]
                        let lease = __lease;
                        {
                            self.store.take(count, lease.fencing_token()).await?;
                            Ok(count)
                        }
                    },
                )
                .await;
            match ::dlock::__private::finish(lease, __output).await {
                ::core::result::Result::Ok(__value) => return __value,
                ::core::result::Result::Err(__error) => __error,
            }
        };
        return <Result<
            u32,
            Error,
        > as ::dlock::__private::Fallible>::from_lock_error(__error);
    }
}
