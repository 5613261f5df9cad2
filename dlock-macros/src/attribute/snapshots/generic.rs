#[cfg_attr(doc, doc = "Holds the lock `import:<source>` while it runs.")]
pub async fn import<S, const N: usize>(
    source: &S,
) -> Result<impl Iterator<Item = Row>, Error>
where
    S: Source + KeyPart,
{
    crate::locks::__private::in_editors! {
        let _ = ::core::format_args!(r"______{source}");
    }
    let __error: crate::locks::__private::LockError = 'locked: {
        let __site = crate::locks::__private::site!(
            "import", ["import:<source>"], [], []
        );
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = crate::locks::__private::acquire(
            __site,
            __site.options(),
            ::core::option::Option::None,
            crate::locks::__private::key(
                "import:<source>",
                &[
                    crate::locks::__private::text("import:"),
                    crate::locks::__private::part(&source),
                ],
            ),
        );
        let __guard = match __acquiring.await {
            ::core::result::Result::Ok(__guard) => __guard,
            ::core::result::Result::Err(__error) => break 'locked __error,
        };
        let __output = crate::locks::__private::LockGuard::run_while_held(
                &__guard,
                async move {
                    if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<
                        Result<_, Error>,
                    > {
                        return __output;
                    }
                    #[allow(clippy::used_underscore_binding)]
                    {
                        let _ = &source;
                    }
                    '__body: { Ok(source.rows::<N>().await?.into_iter()) }
                },
            )
            .await;
        match crate::locks::__private::finish(__guard, __output).await {
            ::core::result::Result::Ok(__value) => return __value,
            ::core::result::Result::Err(__error) => __error,
        }
    };
    return <Result<
        _,
        Error,
    > as crate::locks::__private::Fallible>::from_lock_error(__error);
}
