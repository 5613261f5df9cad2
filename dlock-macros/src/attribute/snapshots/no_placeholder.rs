async fn report() -> anyhow::Result<()> {
    let __error: ::dlock::__private::LockError = 'locked: {
        let __site = ::dlock::__private::site!(
            "report", ["nightly-report"], [.wait(::dlock::__private::Wait::Never)], []
        );
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = ::dlock::__private::acquire(
            __site,
            __site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "nightly-report",
                &[::dlock::__private::text("nightly-report")],
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
                        anyhow::Result<()>,
                    > {
                        return __output;
                    }
                    '__body: { write().await }
                },
            )
            .await;
        match ::dlock::__private::finish(__guard, __output).await {
            ::core::result::Result::Ok(__value) => return __value,
            ::core::result::Result::Err(__error) => __error,
        }
    };
    return <anyhow::Result<
        (),
    > as ::dlock::__private::Fallible>::from_lock_error(__error);
}
