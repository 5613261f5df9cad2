async fn pay(id: u64, card: Card, _timer: Timer) -> Result<Receipt, Error> {
    ::dlock::__private::in_editors! {
        let _ = ::core::format_args!(r"_______{id}");
    }
    let error: ::dlock::__private::LockError = 'locked: {
        let site = ::dlock::__private::site!("pay", "payment:<id>", [], []);
        #[allow(clippy::used_underscore_binding)]
        let acquiring = ::dlock::__private::acquire(
            site,
            site.options(),
            ::core::option::Option::None,
            ::dlock::__private::key(
                "payment:<id>",
                &[::dlock::__private::text("payment:"), ::dlock::__private::part(&id)],
            ),
        );
        let guard = match acquiring.await {
            ::core::result::Result::Ok(guard) => guard,
            ::core::result::Result::Err(error) => break 'locked error,
        };
        match ::dlock::__private::Detach::of(&guard)
            .run(async move {
                let output = guard
                    .watch(async move {
                        if let ::core::option::Option::Some(output) = ::core::option::Option::None::<
                            Result<Receipt, Error>,
                        > {
                            return output;
                        }
                        #[allow(clippy::used_underscore_binding)]
                        {
                            let _ = &id;
                            let _ = &card;
                            let _ = &_timer;
                        }
                        {
                            ();
                            card.charge(id).await
                        }
                    })
                    .await;
                let released = guard.release().await;
                ::dlock::__private::settle(output, released)
            })
            .await
        {
            ::core::result::Result::Ok(value) => return value,
            ::core::result::Result::Err(error) => error,
        }
    };
    return <Result<
        Receipt,
        Error,
    > as ::dlock::__private::Fallible>::from_lock_error(error);
}
