async fn job(name: &str) -> Result<Outcome, Error> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"___{name}");
    }
    let __error: ::dlock::__private::LockError = 'locked: {
        let __site = ::dlock::__private::site!(
            "job", ["job:<name>"],
            [.wait(::dlock::__private::Wait::For(::core::time::Duration::from_millis(2000u64)))
            .min_hold(::core::time::Duration::from_millis(10000u64))], []
        );
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = ::dlock::__private::acquire(
            __site,
            __site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "job:<name>",
                &[::dlock::__private::text("job:"), ::dlock::__private::part(&name)],
            ),
        );
        #[allow(unreachable_code, clippy::diverging_sub_expression)]
        let __guard = match __acquiring.await {
            ::core::result::Result::Ok(__guard) => __guard,
            ::core::result::Result::Err(
                __error,
            ) if ::dlock::__private::is_busy(&__error) => return Ok(Outcome::Skipped),
            ::core::result::Result::Err(__error) => break 'locked __error,
        };
        let __output = ::dlock::__private::LockGuard::run_while_held(
                &__guard,
                async move {
                    if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<
                        Result<Outcome, Error>,
                    > {
                        return __output;
                    }
                    #[allow(clippy::used_underscore_binding)]
                    {
                        let _ = &name;
                    }
                    '__body: { run(name).await }
                },
            )
            .await;
        match ::dlock::__private::finish(__guard, __output).await {
            ::core::result::Result::Ok(__value) => return __value,
            ::core::result::Result::Err(__error) => __error,
        }
    };
    return <Result<
        Outcome,
        Error,
    > as ::dlock::__private::Fallible>::from_lock_error(__error);
}
