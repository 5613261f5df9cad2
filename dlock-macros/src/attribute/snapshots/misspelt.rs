async fn settle(id: u64) -> Result<(), Error> {
    const _: () = {
        mod __dlock_key {
            #![no_implicit_prelude]
            fn parameters() {
                let id = "";
                let _ = ::core::format_args!(r"_____{idd}");
            }
        }
    };
    store(id).await
}
::core::compile_error! {
    "missing time unit in `ttl`\nhelp: write `ttl = \"30s\"`; units are `ms`, `s`, `m`, `h` and `d`"
}
