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
            let error: ::dlock::__private::LockError = 'locked: {
                let site = ::dlock::__private::site!("settle", "order:<id>", [], []);
                #[allow(clippy::used_underscore_binding)]
                let acquiring = ::dlock::__private::acquire(
                    site,
                    site.options(),
                    ::core::option::Option::None,
                    ::dlock::__private::key(
                        "order:<id>",
                        &[
                            ::dlock::__private::text("order:"),
                            ::dlock::__private::part(&id),
                        ],
                    ),
                );
                let guard = match acquiring.await {
                    ::core::result::Result::Ok(guard) => guard,
                    ::core::result::Result::Err(error) => break 'locked error,
                };
                let output = guard
                    .watch(async move {
                        if let ::core::option::Option::Some(output) = ::core::option::Option::None::<
                            Result<(), Error>,
                        > {
                            return output;
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
                    })
                    .await;
                let released = guard.release().await;
                match ::dlock::__private::settle(output, released) {
                    ::core::result::Result::Ok(value) => return value,
                    ::core::result::Result::Err(error) => error,
                }
            };
            return <Result<
                (),
                Error,
            > as ::dlock::__private::Fallible>::from_lock_error(error);
        })
    }
}
