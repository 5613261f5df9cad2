impl Shop {
    fn settle<'life0, 'async_trait>(
        &'life0 self,
        id: u64,
    ) -> ::core::pin::Pin<
        Box<
            dyn ::core::future::Future<
                Output = Result<(), Error>,
            > + ::core::marker::Send + 'async_trait,
        >,
    >
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            ::dlock::__private::in_editors! {
                let _ = ::core::format_args!(r"_____{id}");
            }
            let __error: ::dlock::__private::LockError = 'locked: {
                let __site = ::dlock::__private::site!("settle", ["order:<id>"], [], []);
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
                let __guard = match __acquiring.await {
                    ::core::result::Result::Ok(__guard) => __guard,
                    ::core::result::Result::Err(__error) => break 'locked __error,
                };
                let __output = ::dlock::__private::LockGuard::run_while_held(
                        &__guard,
                        async move {
                            if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<
                                Result<(), Error>,
                            > {
                                return __output;
                            }
                            #[allow(clippy::used_underscore_binding)]
                            {
                                let _ = &self;
                                let _ = &id;
                            }
                            {
                                let __self = self;
                                let id = id;
                                let __ret: Result<(), Error> = {
                                    __self.store.settle(id).await
                                };
                                #[allow(unreachable_code)] __ret
                            }
                        },
                    )
                    .await;
                match ::dlock::__private::finish(__guard, __output).await {
                    ::core::result::Result::Ok(__value) => return __value,
                    ::core::result::Result::Err(__error) => __error,
                }
            };
            return <Result<
                (),
                Error,
            > as ::dlock::__private::Fallible>::from_lock_error(__error);
        })
    }
}
