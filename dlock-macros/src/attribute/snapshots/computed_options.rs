impl Shop {
    async fn work(&self, job: Job) -> Result<(), Error> {
        let error: ::dlock::__private::LockError = 'locked: {
            let site = ::dlock::__private::site!(
                "work", "job", [.ttl(::dlock::__private::check_ttl(TTL))
                .on_lost(::dlock::__private::OnLost::Finish)], ["wait", "max_hold"]
            );
            #[allow(clippy::used_underscore_binding)]
            let acquiring = ::dlock::__private::acquire(
                site,
                site
                    .options()
                    .wait(
                        ::core::convert::Into::<
                            ::dlock::__private::Wait,
                        >::into(job.patience()),
                    )
                    .max_hold(const { ::dlock::__private::check_max_hold(Self::LIMIT) }),
                ::core::option::Option::None,
                ::dlock::__private::key("job", &[::dlock::__private::text("job")]),
            );
            let guard = match acquiring.await {
                ::core::result::Result::Ok(guard) => guard,
                ::core::result::Result::Err(error) => break 'locked error,
            };
            let output = guard
                .watch(async move {
                    if let ::core::option::Option::Some(output) = ::core::option::Option::None::<
                        Result<(), Error>,
                    > {
                        return output;
                    }
                    #[allow(clippy::used_underscore_binding)]
                    {
                        let _ = &job;
                    }
                    {
                        ();
                        job.run().await
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
            (),
            Error,
        > as ::dlock::__private::Fallible>::from_lock_error(error);
    }
}
