impl Shop {
    /// Settles an order.
    ///
    /// Holds the lock `order:<id>` while it runs, unless `enabled` is false.
    pub async fn settle(self, id: u64) -> Result<(), Error> {
        ::dlock::__private::in_editors! {
            let _ = ::core::format_args!(r"_____{id}");
        }
        let __enabled: ::core::primitive::bool = self.has_replicas;
        let __error: ::dlock::__private::LockError = 'locked: {
            let __guard = if __enabled {
                let __site = ::dlock::__private::site!(
                    "settle", ["order:<id>"], [], ["enabled"]
                );
                #[allow(clippy::used_underscore_binding)]
                let __acquiring = ::dlock::__private::acquire(
                    __site,
                    __site.options(),
                    ::core::option::Option::None,
                    ::dlock::__private::key(
                        "order:<id>",
                        &[
                            ::dlock::__private::text("order:"),
                            ::dlock::__private::part(&id),
                        ],
                    ),
                );
                ::dlock::__private::OptionalGuard::held(
                    match __acquiring.await {
                        ::core::result::Result::Ok(__guard) => __guard,
                        ::core::result::Result::Err(__error) => break 'locked __error,
                    },
                )
            } else {
                ::dlock::__private::OptionalGuard::none()
            };
            match ::dlock::__private::OptionalGuard::detach(&__guard)
                .run(async move {
                    let __output = ::dlock::__private::OptionalGuard::run_while_held(
                            &__guard,
                            async move {
                                if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<
                                    Result<(), Error>,
                                > {
                                    return __output;
                                }
                                #[allow(clippy::used_underscore_binding)]
                                {
                                    let _ = &id;
                                    let _ = &self;
                                }
                                '__body: { self.store.settle(id).await }
                            },
                        )
                        .await;
                    ::dlock::__private::OptionalGuard::finish(__guard, __output).await
                })
                .await
            {
                ::core::result::Result::Ok(__value) => return __value,
                ::core::result::Result::Err(__error) => __error,
            }
        };
        return <Result<
            (),
            Error,
        > as ::dlock::__private::Fallible>::from_lock_error(__error);
    }
}
