async fn pack(shop: &Shop, Path(id): Path<u64>, line: (u32, u8)) -> Result<(), Error> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"____{shop}______{id}_{line}__");
    }
    let __error: ::dlock::__private::LockError = 'locked: {
        let __site = ::dlock::__private::site!(
            "pack", ["shop:<shop.name>/<id>/<line.0>"], [], []
        );
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = ::dlock::__private::acquire(
            __site,
            __site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "shop:<shop.name>/<id>/<line.0>",
                &[
                    ::dlock::__private::text("shop:"),
                    ::dlock::__private::part(&shop.name),
                    ::dlock::__private::text("/"),
                    ::dlock::__private::part(&id),
                    ::dlock::__private::text("/"),
                    ::dlock::__private::part(&line.0),
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
                        let _ = &line;
                        let _ = &id;
                        let _ = &shop;
                    }
                    '__body: { shop.pack(id, line).await }
                },
            )
            .await;
        match ::dlock::__private::finish(__guard, __output).await {
            ::core::result::Result::Ok(__value) => return __value,
            ::core::result::Result::Err(__error) => __error,
        }
    };
    return <Result<(), Error> as ::dlock::__private::Fallible>::from_lock_error(__error);
}
