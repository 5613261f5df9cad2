/// Settles an order.
///
/// Holds the lock `order:<id>` while it runs; `ttl` 30s.
pub async fn settle(id: u64) -> Result<Receipt, OrderError> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"_____{id}");
    }
    let __error: ::dlock::__private::LockError = 'locked: {
        let __site = ::dlock::__private::site!(
            "settle", ["order:<id>"],
            [.ttl(::core::time::Duration::from_millis(30000u64))], []
        );
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = ::dlock::__private::acquire(
            __site,
            __site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "order:<id>",
                &[::dlock::__private::text("order:"), ::dlock::__private::part(&id)],
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
                        Result<Receipt, OrderError>,
                    > {
                        return __output;
                    }
                    #[allow(clippy::used_underscore_binding)]
                    {
                        let _ = &id;
                    }
                    {
                        let order = load(id).await?;
                        order.settle().await
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
        Receipt,
        OrderError,
    > as ::dlock::__private::Fallible>::from_lock_error(__error);
}
