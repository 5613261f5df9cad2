async fn call(tenant: &Tenant) -> Result<(), Error> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"___{tenant}___");
    }
    let __error: ::dlock::__private::LockError = 'locked: {
        let __site = ::dlock::__private::site!(
            "call", ["api:<tenant.id>"], [], ["permits"]
        );
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = ::dlock::__private::acquire(
            __site,
            __site.options().permits(tenant.calls()),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "api:<tenant.id>",
                &[::dlock::__private::text("api:"), ::dlock::__private::part(&tenant.id)],
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
                        Result<(), Error>,
                    > {
                        return __output;
                    }
                    #[allow(clippy::used_underscore_binding)]
                    {
                        let _ = &tenant;
                    }
                    '__body: { tenant.call().await }
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
