/// Settles an order.
///
/// Holds the locks `order:<id>` and `tenant:<tenant>` (shared) while it runs.
pub async fn settle(id: u64, tenant: &str) -> Result<(), Error> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"_____{id}"); let _ =
        ::core::format_args!(r"______{tenant}");
    }
    let __error: ::dlock::__private::LockError = 'locked: {
        let __site = ::dlock::__private::site!(
            "settle", ["order:<id>", "tenant:<tenant>"],
            [.permits(::dlock::__private::check_permits(LINES))], [], "order"; [false,
            true]
        );
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = ::dlock::__private::acquire_all(
            __site,
            __site.options(),
            ::core::option::Option::None,
            ::dlock::__private::keys([
                ::dlock::__private::own_key(
                    ::dlock::__private::key(
                        "order:<id>",
                        &[
                            ::dlock::__private::text("order:"),
                            ::dlock::__private::part(&id),
                        ],
                    ),
                ),
                ::dlock::__private::shared_key(
                    ::dlock::__private::key(
                        "tenant:<tenant>",
                        &[
                            ::dlock::__private::text("tenant:"),
                            ::dlock::__private::part(&tenant),
                        ],
                    ),
                ),
            ]),
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
                        let _ = &tenant;
                        let _ = &id;
                    }
                    '__body: { store(id, tenant).await }
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
