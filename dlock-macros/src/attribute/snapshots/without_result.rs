async fn refresh(key: String) {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"_____{key}");
    }
    let __error: ::dlock::__private::LockError = 'locked: {
        let __site = ::dlock::__private::site!("refresh", ["cache:<key>"], [], []);
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = ::dlock::__private::acquire(
            __site,
            __site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "cache:<key>",
                &[::dlock::__private::text("cache:"), ::dlock::__private::part(&key)],
            ),
        );
        let __guard = match __acquiring.await {
            ::core::result::Result::Ok(__guard) => __guard,
            ::core::result::Result::Err(__error) => break 'locked __error,
        };
        let __output = ::dlock::__private::LockGuard::run_while_held(
                &__guard,
                #[allow(clippy::async_yields_async)]
                async move {
                    if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<
                        (),
                    > {
                        return __output;
                    }
                    #[allow(clippy::used_underscore_binding)]
                    {
                        let _ = &key;
                    }
                    {
                        fetch(&key).await;
                    }
                },
            )
            .await;
        match ::dlock::__private::finish(__guard, __output).await {
            ::core::result::Result::Ok(__value) => return __value,
            ::core::result::Result::Err(__error) => __error,
        }
    };
    return ::core::result::Result::<
        _,
        ::dlock::__private::LockError,
    >::unwrap_or_else(
        ::core::result::Result::Err(__error),
        |error| warn!(% error, "not refreshed"),
    );
}
