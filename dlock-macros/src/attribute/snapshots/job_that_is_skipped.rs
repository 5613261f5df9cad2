/// Writes the report of a day.
///
/// Holds the lock `report:<day>` while it runs; `wait` never.
pub async fn report(day: u32) -> Result<Option<Report>, Error> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"______{day}");
    }
    let __error: ::dlock::__private::LockError = 'locked: {
        let __site = ::dlock::__private::site!(
            "report", ["report:<day>"], [.wait(::dlock::__private::Wait::Never)], [],
            "report"
        );
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = ::dlock::__private::acquire(
            __site,
            __site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "report:<day>",
                &[::dlock::__private::text("report:"), ::dlock::__private::part(&day)],
            ),
        );
        let __guard = match __acquiring.await {
            ::core::result::Result::Ok(__guard) => __guard,
            ::core::result::Result::Err(
                __error,
            ) if ::dlock::__private::is_busy(&__error) => {
                return <Result<
                    Option<Report>,
                    Error,
                > as ::dlock::__private::Skip>::skipped();
            }
            ::core::result::Result::Err(__error) => break 'locked __error,
        };
        let __output = ::dlock::__private::LockGuard::run_while_held(
                &__guard,
                async move {
                    if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<
                        Result<Option<Report>, Error>,
                    > {
                        return __output;
                    }
                    #[allow(clippy::used_underscore_binding)]
                    {
                        let _ = &day;
                    }
                    '__body: { write(day).await.map(Some) }
                },
            )
            .await;
        match ::dlock::__private::finish(__guard, __output).await {
            ::core::result::Result::Ok(__value) => return __value,
            ::core::result::Result::Err(__error) => __error,
        }
    };
    return <Result<
        Option<Report>,
        Error,
    > as ::dlock::__private::Fallible>::from_lock_error(__error);
}
