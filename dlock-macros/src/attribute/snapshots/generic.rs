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
    let error: crate::locks::__private::LockError = 'locked: {
        let site = crate::locks::__private::site!("import", "import:<source>", [], []);
        #[allow(clippy::used_underscore_binding)]
        let acquiring = crate::locks::__private::acquire(
            site,
            site.options(),
            ::core::option::Option::None,
            crate::locks::__private::key(
                "import:<source>",
                &[
                    crate::locks::__private::text("import:"),
                    crate::locks::__private::part(&source),
                ],
            ),
        );
        let guard = match acquiring.await {
            ::core::result::Result::Ok(guard) => guard,
            ::core::result::Result::Err(error) => break 'locked error,
        };
        let output = guard
            .watch(async move {
                if let ::core::option::Option::Some(output) = ::core::option::Option::None::<
                    Result<_, Error>,
                > {
                    return output;
                }
                #[allow(clippy::used_underscore_binding)]
                {
                    let _ = &source;
                }
                {
                    ();
                    Ok(source.rows::<N>().await?.into_iter())
                }
            })
            .await;
        let released = guard.release().await;
        match crate::locks::__private::settle(output, released) {
            ::core::result::Result::Ok(value) => return value,
            ::core::result::Result::Err(error) => error,
        }
    };
    return <Result<
        _,
        Error,
    > as crate::locks::__private::Fallible>::from_lock_error(error);
}
