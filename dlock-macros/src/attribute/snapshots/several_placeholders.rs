async fn pack(shop: &Shop, Path(id): Path<u64>, line: (u32, u8)) -> Result<(), Error> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"____{shop}______{id}_{line}__");
    }
    let error: ::dlock::__private::LockError = 'locked: {
        let site = ::dlock::__private::site!(
            "pack", "shop:<shop.name>/<id>/<line.0>", [], []
        );
        #[allow(clippy::used_underscore_binding)]
        let acquiring = ::dlock::__private::acquire(
            site,
            site.options(),
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
                    let _ = &shop;
                    let _ = &id;
                    let _ = &line;
                }
                {
                    ();
                    shop.pack(id, line).await
                }
            })
            .await;
        let released = guard.release().await;
        match ::dlock::__private::settle(output, released) {
            ::core::result::Result::Ok(value) => return value,
            ::core::result::Result::Err(error) => error,
        }
    };
    return <Result<(), Error> as ::dlock::__private::Fallible>::from_lock_error(error);
}
