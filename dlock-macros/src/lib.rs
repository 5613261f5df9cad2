//! The attribute `#[distributed_lock]` and the derive `KeyPart` of `dlock-rs`, which re-exports them.
//!
//! An annotated function passes through these modules in this order:
//!
//! ```text
//! attribute   runs the stages one after the other
//! args        the options as written, with `elsewhere`  ┐
//! target      the function: async, or a boxed block     ├ the input of the user
//! params      the names a key may use                   ┘
//! check       options and function to a `Plan`, or all mistakes at once
//!   blocking · captures · key · lease · modes · silent · overlay · output · future · owned · roots · values
//!   template · duration · literal · suggest · idents
//! plan        the code to generate
//! expand      the `Plan` to tokens, with `doc`; cannot fail
//! ```
//!
//! The derive (`key_part`) has the same stages on a smaller scale: `options`, `check`, `plan`, `expand`. Both
//! report mistakes through `message` and `suggest`.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod args;
mod attribute;
mod blocking;
mod captures;
mod check;
mod doc;
mod duration;
mod elsewhere;
mod expand;
mod fault;
mod future;
mod idents;
mod key;
mod key_part;
mod lease;
mod literal;
mod message;
mod modes;
#[cfg(test)]
mod mutants;
mod output;
mod overlay;
mod owned;
mod params;
mod plan;
mod roots;
mod silent;
mod suggest;
mod target;
mod template;
mod values;

use proc_macro::TokenStream;

/// Runs a function under a distributed lock: an async function, or one that blocks its thread.
///
/// ```text
/// #[distributed_lock(key = "order:<id>", ttl = "30s")]
/// async fn settle(id: u64) -> Result<Receipt, OrderError> {   // OrderError: From<LockError>
///     // For each `id`, one process at a time runs this body.
/// }
/// ```
///
/// Each call renders the key, acquires the lock, runs the body and releases the lock. The lock is also
/// released if the body returns early, fails or panics, and if the caller drops the future. If the lock
/// cannot be acquired, the body does not run and the function returns an error.
///
/// # Options
///
/// | option | meaning | default |
/// |---|---|---|
/// | `key = "order:<id>"`, `["a:<x>", shared("b:<y>")]` | the key or keys, see [Key template](#key-template) and [Several keys](#several-keys) | required |
/// | `mode = shared`, `exclusive` | whether calls with `mode = shared` hold the lock together, see [Modes](#modes) | `exclusive` |
/// | `permits = 3` | the number of calls that can hold the lock at the same time, see [Modes](#modes) | one call |
/// | `ttl = "30s"` | how long the store keeps a lease that is not renewed | the manager's, 30 s |
/// | `wait = "5s"`, `never`, `forever` | how long to wait while another holder has the lock | the manager's, 10 s |
/// | `renew = false` | whether the lease is renewed while the body runs | `true` |
/// | `max_hold = "5m"` | releases the lease after this time, even if the body still runs; the lease is then lost | no limit |
/// | `min_hold = "10s"` | the minimum time between acquisition and release, even if the body ends earlier; at most 24 h | the lock is released after the body |
/// | `on_lost = stop`, `finish` | if the lease is lost: drop the body's future at its next await, or run the body to its end | `stop` |
/// | `on_cancel = stop`, `detach` | if the caller drops the future: drop the body, or run it to its end in a separate task | `stop` |
/// | `on_busy = EXPR` | the function's value if the lock was busy for the whole `wait` | a [`Busy` error](#errors) |
/// | `on_busy = skip` | if the lock is busy, return at once the value that means "nothing was done", see [Jobs](#jobs) | a [`Busy` error](#errors) |
/// | `on_error = PATH` or `CLOSURE` | converts a `LockError` to the function's value | `From<LockError>` of the error type |
/// | `enabled = EXPR` | whether this call acquires the lock, see [Calls without a lock](#calls-without-a-lock) | `true` |
/// | `lease = NAME` | the name of the `&Lease` in the body: key, fencing token, remaining time | no name |
/// | `manager = EXPR` | the `LockManager` to use, for example `self.locks` | the installed manager |
/// | `metric = "settle-order"` | the label of metrics and logs in place of the key template: 1 to 64 ASCII letters, digits and `-_.:/` | the key template |
/// | `crate = PATH` | the path under which `dlock` is re-exported | `::dlock` |
///
/// Durations are text (`"250ms"`, `"30s"`, `"1m30s"`, `"2h"`) or any expression of type `Duration`. `wait`
/// also accepts an expression of type `Wait`. Text is checked at compile time, and so are constants with
/// names in capitals, such as `ttl = config::LOCK_TTL`. An associated constant such as `Self::TTL` is checked
/// where a use of the function is compiled. A `ttl` is at least `100ms` and at most `24h`. A bare number has
/// no unit and is refused.
///
/// `permits` is an integer, a constant, or any expression of type `u32`. Integers and constants are checked in
/// the same way: they are at least 1. A generic parameter of the `impl` is written in braces, such as
/// `permits = { MOST }`, because it is not a constant of its own.
///
/// The expressions of `permits`, `ttl`, `wait`, `max_hold`, `min_hold`, `enabled`, `manager` and `on_busy` can
/// use the function's parameters. Each call evaluates them before the body. `on_error` can also use the
/// parameters, except those that the body owns: parameters that the body or the key names and that are not `Copy`, such as `String` and
/// `&mut T`.
///
/// Use `min_hold` for jobs that every replica starts by its own clock: a replica that starts slightly later
/// finds the lock busy. It applies whatever happens to the body, and if the process shuts down in an orderly
/// way. If the process is killed, only the TTL applies, because the job was not completed.
///
/// # Jobs
///
/// ```text
/// #[distributed_lock(key = "report:<day>", min_hold = "10m", on_busy = skip)]
/// async fn report(day: u32) -> Result<Option<Report>, JobError> { .. }
/// ```
///
/// With `on_busy = skip`, a call that finds the lock busy does nothing. It implies `wait = never`, unless
/// `wait` is set. The return type determines the value:
///
/// | return type | value |
/// |---|---|
/// | `()` | `()` |
/// | `Option<T>` | `None` |
/// | `Result<(), E>` | `Ok(())` |
/// | `Result<Option<T>, E>` | `Ok(None)` |
///
/// Other failures are returned as [errors](#errors), so `()` and `Option<T>` also need `on_error`. To use a
/// variable that is called `skip`, write `{ skip }`.
///
/// # Calls without a lock
///
/// ```text
/// #[distributed_lock(key = "order:<id>", enabled = config.has_replicas)]
/// async fn settle(config: &Config, id: u64) -> Result<Receipt, OrderError> { .. }
/// ```
///
/// `enabled` has the type `bool`. Each call evaluates it before everything else. If it is `false`, the body
/// runs without a lock: no key is rendered, no other option except `on_cancel` is evaluated, and no manager
/// needs to be installed. Use it for a service with a single replica, for local development, or for a feature
/// flag during a migration.
///
/// Such a call has none of the lock's guarantees. It excludes no other call, in this or another process, even
/// if the other call holds the lock. While processes disagree about `enabled`, bodies run at the same time. The call
/// does not appear in metrics, logs or operator tools, and `LockManager::shutdown` does not wait for it. It
/// has no fencing token, so `enabled` and `lease` cannot be combined.
///
/// # Documentation and list of locks
///
/// The attribute adds a line about the lock to the function's documentation. With the feature `registry` of
/// `dlock-rs`, `dlock::lock_sites()` lists all annotated functions of the program.
///
/// # Key template
///
/// ```text
/// template    = { text | placeholder | "<'" name "'>" }
/// placeholder = "<" name { "." ( field | index | method "()" ) } ">"
/// text        = any printable characters but braces; "<<" and ">>" for angle brackets
/// ```
///
/// A name is a parameter of the function or `self`. Names bound in patterns count: `Path((shop, id)):
/// Path<(u32, u64)>` provides `<shop>` and `<id>`. Fields and methods are allowed: `<self.tenant>`,
/// `<order.id>`, `<pair.0>` and `<user.name()>`. The value must implement `KeyPart`. The key borrows it
/// before the body runs.
///
/// Text that looks like a placeholder in another notation and names a parameter is refused, because the key
/// would be the same in every call: `"order:id"`, `"order:$id"`, `"order:[id]"`, `"order:<<id>>"`. A name in
/// quotes is text: `"order:<'id'>"` is the key `order:id`.
///
/// Editors treat the names as parameters: rust-analyzer finds and renames them and jumps to their
/// declaration, and rustc underlines a misspelt name. This depends on undocumented behavior of compilers. If
/// a new compiler release breaks it, set the environment variable `DLOCK_WHOLE_SPANS` at compile time.
///
/// Values are escaped when they are rendered, so different arguments never share a key. For the same reason,
/// two placeholders need a delimiter such as `:` or `/` between them: letters, digits, `-`, `_`, `.`, `~` and
/// `%` may occur inside a value. Two functions with the same template share one lock.
///
/// # Several keys
///
/// ```text
/// #[distributed_lock(key = ["account:<from>", "account:<to>"])]
/// async fn transfer(from: u64, to: u64, cents: u64) -> Result<(), BankError> { .. }
/// ```
///
/// The body runs with all keys or does not run. The first requests for all keys are sent at once. Calls never
/// deadlock, in whatever order they name their keys: while a call waits for a key, it holds only keys that
/// sort before that key. This covers the keys of one function. If the body calls another locked function,
/// that call waits while the outer keys are held. Two bodies that nest the same keys in opposite orders therefore wait
/// for each other, until the `wait` of one ends with `LockError::Busy`, or for ever with `wait = forever`. Write one
/// list for both keys instead. If two values make two keys equal, as in a transfer to the
/// same account, they count as one key. The same template twice is refused as a mistake.
///
/// `wait` limits the wait for all keys together. `on_busy` and `LockError::Busy` apply if any key was busy
/// for the whole wait. The body ends as soon as one lease is lost, and the error names its key.
/// `lease.fencing_tokens()` returns the fencing token of each key, and `lease.fencing_token()` the token of
/// the first key. `max_hold` starts when all keys are held and the body begins. `min_hold` of each key starts
/// when that key is acquired. A key that is released because another key is busy has no `min_hold`.
///
/// # Modes
///
/// ```text
/// #[distributed_lock(key = "catalog:<shop>", mode = shared)]
/// async fn read(shop: u32) -> Result<Catalog, ShopError> { .. }
///
/// #[distributed_lock(key = "catalog:<shop>")]
/// async fn write(shop: u32, catalog: Catalog) -> Result<(), ShopError> { .. }
///
/// #[distributed_lock(key = "tax-office", permits = 3)]
/// async fn report(id: u64) -> Result<(), ShopError> { .. }
///
/// #[distributed_lock(key = ["order:<id>", shared("catalog:<shop>")])]
/// async fn order(id: u64, shop: u32) -> Result<(), ShopError> { .. }
/// ```
///
/// Calls with `mode = shared` hold the lock together, and never together with an exclusive call. With `permits = 3`, up
/// to three calls hold it. In a list of keys, `shared(..)` marks the keys that are held in shared mode; `mode` and
/// `permits` apply to the others. `mode` and `permits` cannot be combined.
///
/// Functions with one key can have different modes. All wait in one queue, first come, first served. Calls
/// that hold the lock together have the same fencing token, except in a quorum. If a body acquires its own key again, in any mode,
/// that call is refused with `LockError::WouldDeadlock`. A store that does not support a mode
/// refuses the call with `LockError::InvalidOption`.
///
/// # Errors
///
/// The function returns a `LockError`, through `From` or `on_error`, in these cases:
/// - The lock is busy for the whole `wait`, the store cannot be reached, the values do not form a valid key,
///   or no manager is installed. The body has not run.
/// - The lease was lost while the body ran (`LockError::Lost`), unless `on_lost = finish`.
///
/// A failed release is not an error of the call: the function returns the body's result.
///
/// The result is kept while the lock is released. The function's future is therefore `Send` only if its
/// result is: `Box<dyn Error>` is not, `Box<dyn Error + Send + Sync>` is. In the same way, the future is
/// `Sync` if the body's future and the result are.
///
/// A function without a return value needs `on_error`, because it cannot return an error.
///
/// # Cancel safety
///
/// Nothing happens before the future is polled. If the future is dropped while it waits, the call leaves the
/// queue. If it is dropped while the body runs, it drops the body first and then releases the lock in the
/// background. The body must tolerate being dropped at any await, as it must without a lock.
///
/// With `on_cancel = detach`, a body that has begun runs to its end. If the future is dropped while the body
/// runs, the body moves to a separate task, with the lock and the arguments. The arguments must be owned, and
/// the arguments and the body's result must be `Send`. While the caller polls the future, nothing is spawned,
/// and the body sees the caller's task-locals.
///
/// A runtime that shuts down drops the detached task like every other task; `dlock::shutdown` waits for it. A
/// single-threaded runtime must be driven: between two calls of `block_on` the task pauses and keeps the
/// lock. The result of a detached body is dropped, so the body must store or log everything that must not be
/// lost.
///
/// Arguments are dropped before the lock is released, whether the body uses them or not. They are dropped in the same
/// order as without a lock: the last one first. Only arguments that nothing uses, about which rustc warns, are dropped
/// before the others. These arguments are dropped after the release:
/// - arguments that are not bound (`_: T`) or bound by reference only (`ref name`)
/// - arguments under `#[expect(unused_variables)]`
/// - arguments that `on_error` names and the body does not
/// - arguments that an attribute below takes and the body does not name, such as `span` in `#[instrument(parent = span)]`
///
/// With `on_cancel = detach`, the arguments in this list are dropped when the caller drops the future, while the body continues.
/// To drop an argument before the release, name it `_name` and not `_`.
///
/// # With other attributes
///
/// | attribute | order |
/// |---|---|
/// | `#[async_trait]` | on the method, inside the `impl`; the key cannot use arguments that are patterns |
/// | `#[tokio::main]`, `#[tokio::test]`, `#[actix_web::main]`, `#[rstest]` | `#[distributed_lock]` above: they turn an async function into a plain one |
/// | `#[tracing::instrument]` | above: waiting for the lock is outside the span. Below: inside it |
/// | `#[fastrace::trace]` and others that rewrite the block of an `#[async_trait]` method | `#[distributed_lock]` above |
/// | `#[cached]` and others that copy the function | `#[distributed_lock]` above. Otherwise each copy acquires the lock, and a copy that another copy calls is refused with `LockError::WouldDeadlock` |
/// | `#[axum::debug_handler]`, routes of actix, `#[bon::builder]` | any |
/// | `#[async_recursion]` | any; a recursive call with the same key is refused as a deadlock |
///
/// A plain function that ends in `async { .. }` or `Box::pin(async { .. })`, with or without `move`, is guarded like an
/// async function. Statements before that block run when the function is called, before the lock is acquired.
///
/// # Plain functions
///
/// ```text
/// #[distributed_lock(key = "import:<feed>", wait = "1m", lease = lease, on_lost = finish)]
/// fn import(feed: &str) -> Result<u64, LockError> { .. }
/// ```
///
/// A function that is not `async` blocks its thread while it waits for the lock and while it runs. It needs
/// no runtime: timers, connections and renewals run on dlock's own threads. The rules above for keys, errors
/// and values apply, and the arguments are dropped before the lock is released.
///
/// - A thread cannot be cancelled, so `on_lost = finish` is required: the body runs to its end even if its
///   lease is lost. It can check `lease.is_lost()` and `lease.ensure_held()`. The call then returns
///   `LockError::Lost` and drops the body's result. `on_cancel` is refused, because a caller cannot drop a
///   call that has begun.
/// - If the body panics, the lock is released and the panic continues.
/// - Inside the body, a call for the same lock on the same thread is refused with `LockError::WouldDeadlock`.
/// - Inside an async task, whose thread must not block, the call is refused with `LockError::WouldBlock`.
///   Inside `spawn_blocking` and `block_in_place` it is allowed. A task under `tokio::task::unconstrained` is
///   not detected, and tokio panics there.
/// - `dlock::blocking::with_manager` sets the manager for the calls of one thread.
///
/// # Expansion
///
/// The signature, the attributes and the body stay as written, and no new function is created. This
///
/// ```text
/// #[distributed_lock(key = "order:<id>", ttl = "30s")]
/// async fn settle(id: u64) -> Ret { BODY }
/// ```
///
/// becomes, with paths and names shortened,
///
/// ```text
/// async fn settle(id: u64) -> Ret {
///     let error = 'locked: {
///         let site = site!("settle", ["order:<id>"], [.ttl(..)], []);   // a static
///         let acquiring = acquire(site, site.options(), None, key(.., &[text("order:"), part(&id)]));
///         let guard = match acquiring.await {
///             Ok(guard) => guard,
///             Err(error) => break 'locked error,
///         };
///         let output = guard.run_while_held(async move {
///             if let Some(output) = None::<Ret> { return output; }   // a hint for inference
///             { BODY }
///         }).await;
///         let released = guard.release().await;
///         match settle(output, released) {
///             Ok(value) => return value,
///             Err(error) => error,
///         }
///     };
///     return <Ret as Fallible>::from_lock_error(error);
/// }
/// ```
#[proc_macro_attribute]
pub fn distributed_lock(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute::run(arguments.into(), item.into()).into()
}

/// Implements `KeyPart`, so that values of your own type can be part of a lock key.
///
/// ```text
/// #[derive(KeyPart)]
/// struct Sku(String);
///
/// #[derive(KeyPart)]
/// struct Order {
///     shop: u32,
///     number: u64,
///     #[key_part(skip)]
///     lines: Vec<Line>,
/// }
///
/// #[derive(KeyPart)]
/// #[key_part(rename_all = "snake_case")]
/// enum Step { TakeMoney, SendGoods }
///
/// #[distributed_lock(key = "step:<order>:<step>")]
/// async fn run(order: Order, step: Step) -> Result<(), LockError> { .. }
/// ```
///
/// | type | its text in a key |
/// |---|---|
/// | struct with one field | the text of the field |
/// | struct with several fields | the texts of all fields as parts (`PartWriter::push_part`): one value, without delimiters |
/// | enum without fields | the name of the variant |
///
/// The fields are used in the order of the source. Their names are not part of the key. Fields with a type
/// named `PhantomData` are omitted. If you reorder fields or rename variants, the key changes: while two
/// versions of a program run, they do not exclude each other.
///
/// # Options
///
/// | option | on | meaning |
/// |---|---|---|
/// | `#[key_part(skip)]` | a field | the field does not identify the value and is omitted |
/// | `#[key_part(rename_all = "snake_case")]` | an enum | names in another case, spelled exactly as serde does: `lowercase`, `UPPERCASE`, `PascalCase`, `camelCase`, `snake_case`, `SCREAMING_SNAKE_CASE`, `kebab-case`, `SCREAMING-KEBAB-CASE` |
/// | `#[key_part(rename = "sent")]` | a variant | exactly this name, which may be any text |
/// | `#[key_part(crate = path)]` | the type | the path under which `dlock` is re-exported; the default is `::dlock` |
///
/// # Not supported
///
/// The derive refuses unions, enums whose variants have fields, types without anything that identifies a
/// value, and two variants with the same name. Implement `KeyPart` by hand for these.
///
/// # Generics
///
/// The impl requires `KeyPart` for the types of fields that mention a type parameter: `struct Id<T>(u64,
/// PhantomData<T>)` does not require `T: KeyPart`. A field whose type contains the derived type itself adds
/// no bound.
///
/// # Expansion
///
/// ```text
/// impl KeyPart for Order {
///     fn write_part(&self, out: &mut PartWriter<'_>) {
///         push_part(&self.shop, out);
///         push_part(&self.number, out);
///     }
/// }
/// ```
#[proc_macro_derive(KeyPart, attributes(key_part))]
pub fn derive_key_part(item: TokenStream) -> TokenStream {
    key_part::run(item.into()).into()
}
