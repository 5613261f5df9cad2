async fn pay(id: u64, card: Card, _timer: Timer) -> Result<Receipt, Error> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"_______{id}");
    }
    let __error: ::dlock::__private::LockError = 'locked: {
        let __site = ::dlock::__private::site!("pay", ["payment:<id>"], [], []);
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = ::dlock::__private::acquire(
            __site,
            __site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "payment:<id>",
                &[::dlock::__private::text("payment:"), ::dlock::__private::part(&id)],
            ),
        );
        let __guard = match __acquiring.await {
            ::core::result::Result::Ok(__guard) => __guard,
            ::core::result::Result::Err(__error) => break 'locked __error,
        };
        match ::dlock::__private::Detach::of(&__guard)
            .run(async move {
                let __output = ::dlock::__private::LockGuard::run_while_held(
                        &__guard,
                        async move {
                            if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<
                                Result<Receipt, Error>,
                            > {
                                return __output;
                            }
                            #[allow(clippy::used_underscore_binding)]
                            {
                                let _ = &_timer;
                                let _ = &card;
                                let _ = &id;
                            }
                            '__body: { card.charge(id).await }
                        },
                    )
                    .await;
                ::dlock::__private::finish(__guard, __output).await
            })
            .await
        {
            ::core::result::Result::Ok(__value) => return __value,
            ::core::result::Result::Err(__error) => __error,
        }
    };
    return <Result<
        Receipt,
        Error,
    > as ::dlock::__private::Fallible>::from_lock_error(__error);
}
