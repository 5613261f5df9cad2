async fn job(name: &str) -> Result<Outcome, Error> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"___{name}");
    }
    let error: ::dlock::__private::LockError = 'locked: {
        let site = ::dlock::__private::site!(
            "job", "job:<name>",
            [.wait(::dlock::__private::Wait::For(::core::time::Duration::from_millis(2000u64)))
            .min_hold(::core::time::Duration::from_millis(10000u64))], []
        );
        #[allow(clippy::used_underscore_binding)]
        let acquiring = ::dlock::__private::acquire(
            site,
            site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "job:<name>",
                &[::dlock::__private::text("job:"), ::dlock::__private::part(&name)],
            ),
        );
        let guard = match acquiring.await {
            ::core::result::Result::Ok(guard) => guard,
            ::core::result::Result::Err(error) if ::dlock::__private::is_busy(&error) => {
                return Ok(Outcome::Skipped);
            }
            ::core::result::Result::Err(error) => break 'locked error,
        };
        let output = guard
            .watch(async move {
                if let ::core::option::Option::Some(output) = ::core::option::Option::None::<
                    Result<Outcome, Error>,
                > {
                    return output;
                }
                #[allow(clippy::used_underscore_binding)]
                {
                    let _ = &name;
                }
                {
                    ();
                    run(name).await
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
        Outcome,
        Error,
    > as ::dlock::__private::Fallible>::from_lock_error(error);
}
