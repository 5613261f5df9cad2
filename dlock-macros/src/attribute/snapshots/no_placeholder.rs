async fn report() -> anyhow::Result<()> {
    let error: ::dlock::__private::LockError = 'locked: {
        let site = ::dlock::__private::site!(
            "report", "nightly-report", [.wait(::dlock::__private::Wait::Never)], []
        );
        #[allow(clippy::used_underscore_binding)]
        let acquiring = ::dlock::__private::acquire(
            site,
            site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "nightly-report",
                &[::dlock::__private::text("nightly-report")],
            ),
        );
        let guard = match acquiring.await {
            ::core::result::Result::Ok(guard) => guard,
            ::core::result::Result::Err(error) => break 'locked error,
        };
        let output = guard
            .watch(async move {
                if let ::core::option::Option::Some(output) = ::core::option::Option::None::<
                    anyhow::Result<()>,
                > {
                    return output;
                }
                {
                    ();
                    write().await
                }
            })
            .await;
        let released = guard.release().await;
        match ::dlock::__private::settle(output, released) {
            ::core::result::Result::Ok(value) => return value,
            ::core::result::Result::Err(error) => error,
        }
    };
    return <anyhow::Result<()> as ::dlock::__private::Fallible>::from_lock_error(error);
}
