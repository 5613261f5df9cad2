async fn refresh(key: String) {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"_____{key}");
    }
    let error: ::dlock::__private::LockError = 'locked: {
        let site = ::dlock::__private::site!("refresh", "cache:<key>", [], []);
        #[allow(clippy::used_underscore_binding)]
        let acquiring = ::dlock::__private::acquire(
            site,
            site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "cache:<key>",
                &[::dlock::__private::text("cache:"), ::dlock::__private::part(&key)],
            ),
        );
        let guard = match acquiring.await {
            ::core::result::Result::Ok(guard) => guard,
            ::core::result::Result::Err(error) => break 'locked error,
        };
        let output = guard
            .watch(async move {
                if let ::core::option::Option::Some(output) = ::core::option::Option::None::<
                    (),
                > {
                    return output;
                }
                #[allow(clippy::used_underscore_binding)]
                {
                    let _ = &key;
                }
                {
                    fetch(&key).await;
                }
            })
            .await;
        let released = guard.release().await;
        match ::dlock::__private::settle(output, released) {
            ::core::result::Result::Ok(value) => return value,
            ::core::result::Result::Err(error) => error,
        }
    };
    return ::core::result::Result::<
        _,
        ::dlock::__private::LockError,
    >::unwrap_or_else(
        ::core::result::Result::Err(error),
        |error| warn!(% error, "not refreshed"),
    );
}
