/// Moves money.
///
/// Holds the locks `account:<from>` and `account:<to>` while it runs.
pub async fn transfer(from: u64, to: u64, cents: u64) -> Result<(), Error> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"_______{from}"); let _ =
        ::core::format_args!(r"_______{to}");
    }
    let __error: ::dlock::__private::LockError = 'locked: {
        let __site = ::dlock::__private::site!(
            "transfer", ["account:<from>", "account:<to>"], [], []
        );
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = ::dlock::__private::acquire_all(
            __site,
            __site.options(),
            ::core::option::Option::None,
            ::dlock::__private::keys([
                ::dlock::__private::key(
                    "account:<from>",
                    &[
                        ::dlock::__private::text("account:"),
                        ::dlock::__private::part(&from),
                    ],
                ),
                ::dlock::__private::key(
                    "account:<to>",
                    &[
                        ::dlock::__private::text("account:"),
                        ::dlock::__private::part(&to),
                    ],
                ),
            ]),
        );
        let lease = match __acquiring.await {
            ::core::result::Result::Ok(__guard) => __guard,
            ::core::result::Result::Err(__error) => break 'locked __error,
        };
        let __lease = ::dlock::__private::LockGuard::lease(&lease);
        let __output = ::dlock::__private::LockGuard::run_while_held(
                &lease,
                async move {
                    if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<
                        Result<(), Error>,
                    > {
                        return __output;
                    }
                    #[allow(clippy::used_underscore_binding)]
                    {
                        let _ = &cents;
                        let _ = &to;
                        let _ = &from;
                    }
                    #[allow(
                        clippy::no_effect_underscore_binding,
                        clippy::shadow_reuse,
                        clippy::shadow_unrelated
                    )]
                    let lease = __lease;
                    '__body: { book(from, to, cents, lease).await }
                },
            )
            .await;
        match ::dlock::__private::finish(lease, __output).await {
            ::core::result::Result::Ok(__value) => return __value,
            ::core::result::Result::Err(__error) => __error,
        }
    };
    return <Result<(), Error> as ::dlock::__private::Fallible>::from_lock_error(__error);
}
