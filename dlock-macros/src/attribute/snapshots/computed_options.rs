impl Shop {
    async fn work(&self, job: Job) -> Result<(), Error> {
        let __error: ::dlock::__private::LockError = 'locked: {
            let __site = ::dlock::__private::site!(
                "work", ["job"], [.ttl(::dlock::__private::check_ttl(TTL))
                .on_lost(::dlock::__private::OnLost::Finish)], ["wait", "max_hold"]
            );
            #[allow(clippy::used_underscore_binding)]
            let __acquiring = ::dlock::__private::acquire(
                __site,
                __site
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
                            let _ = &job;
                        }
                        '__body: { job.run().await }
                    },
                )
                .await;
            match ::dlock::__private::finish(__guard, __output).await {
                ::core::result::Result::Ok(__value) => return __value,
                ::core::result::Result::Err(__error) => __error,
            }
        };
        return <Result<
            (),
            Error,
        > as ::dlock::__private::Fallible>::from_lock_error(__error);
    }
}
