/// Settles an order.
///
/// Holds the lock `order:<id>` while it runs; `ttl` 30s.
pub async fn settle(id: u64) -> Result<Receipt, OrderError> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"_____{id}");
    }
    let error: ::dlock::__private::LockError = 'locked: {
        let site = ::dlock::__private::site!(
            "settle", "order:<id>",
            [.ttl(::core::time::Duration::from_millis(30000u64))], []
        );
        #[allow(clippy::used_underscore_binding)]
        let acquiring = ::dlock::__private::acquire(
            site,
            site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "order:<id>",
                &[::dlock::__private::text("order:"), ::dlock::__private::part(&id)],
            ),
        );
        let guard = match acquiring.await {
            ::core::result::Result::Ok(guard) => guard,
            ::core::result::Result::Err(error) => break 'locked error,
        };
        let output = guard
            .watch(async move {
                if let ::core::option::Option::Some(output) = ::core::option::Option::None::<
                    Result<Receipt, OrderError>,
                > {
                    return output;
                }
                #[allow(clippy::used_underscore_binding)]
                {
                    let _ = &id;
                }
                {
                    let order = load(id).await?;
                    order.settle().await
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
        Receipt,
        OrderError,
    > as ::dlock::__private::Fallible>::from_lock_error(error);
}
