//! The attribute `#[distributed_lock]` and the derive `KeyPart` of `dlock-rs`, which re-exports them.
//!
//! An annotated function goes through these modules, in this order; a reader can stop at any of them:
//!
//! ```text
//! attribute   the stages one after the other
//! args        the options as written, with `elsewhere`  ┐
//! target      the function: async, or a boxed block     ├ what the user wrote
//! params      the names a key may use                   ┘
//! check       options and function to a `Plan`, or all mistakes at once
//!   blocking · key · silent · overlay · output · future · owned · values · template · duration · literal · suggest · idents
//! plan        what is to be generated
//! expand      the `Plan` to tokens, with `doc`; cannot fail
//! ```
//!
//! The derive (`key_part`) has the same stages in small: `options`, `check`, `plan`, `expand`. Both
//! say what is wrong through `message` and `suggest`.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod args;
mod attribute;
mod blocking;
mod check;
mod doc;
mod duration;
mod elsewhere;
mod expand;
mod future;
#[cfg(test)]
mod fuzzing;
mod idents;
mod key;
mod key_part;
mod literal;
mod message;
#[cfg(test)]
mod mutants;
mod output;
mod overlay;
mod owned;
mod params;
mod plan;
mod silent;
mod suggest;
mod target;
mod template;
mod values;

use proc_macro::TokenStream;

/// Runs an async function, or one that blocks its thread, under a distributed lock.
///
/// ```text
/// #[distributed_lock(key = "order:<id>", ttl = "30s")]
/// async fn settle(id: u64) -> Result<Receipt, OrderError> {   // OrderError: From<LockError>
///     // at most one process is here for each `id`
/// }
/// ```
///
/// Each call renders the key, takes the lock, runs the body, and gives the lock back, also when
/// the body returns early, fails or panics, and when the caller drops the future. If the lock
/// cannot be taken the body does not run, and the function returns the failure.
///
/// # Options
///
/// | option | meaning | if not set |
/// |---|---|---|
/// | `key = "order:<id>"`, `["a:<x>", "b:<y>"]` | what is locked, see [Key template](#key-template) and [Several keys](#several-keys) | required |
/// | `ttl = "30s"` | how long the store keeps the lease without a sign of life | the manager's, 30 s |
/// | `wait = "5s"`, `never`, `forever` | how long to wait while someone else holds the lock | the manager's, 10 s |
/// | `renew = false` | whether the lease is kept alive while the body runs | `true` |
/// | `max_hold = "5m"` | stop renewing after this long; the lease is then lost | the body may run as long as it likes |
/// | `min_hold = "10s"` | keep others out for at least this long, however soon the body ends; at most 24 h | given back after the body |
/// | `on_lost = stop`, `finish` | when the lease is lost: drop the body's future at its next await, or let it end | `stop` |
/// | `on_cancel = stop`, `detach` | when the caller drops the future: drop the body, or let it end in a task of its own | `stop` |
/// | `on_busy = EXPR` | the function's value when the lock was busy for all of `wait` | a [`Busy` error](#errors) |
/// | `on_busy = skip` | when the lock is busy, return at once the value that says that nothing was done, see [Jobs](#jobs) | a [`Busy` error](#errors) |
/// | `on_error = PATH` or `CLOSURE` | makes the function's value of a `LockError` | `From<LockError>` of the error type |
/// | `enabled = EXPR` | whether this call takes the lock at all, see [Calls without a lock](#calls-without-a-lock) | it does |
/// | `lease = NAME` | the name by which the body sees its `&Lease`: key, fencing token, remaining time | the body does not see it |
/// | `manager = EXPR` | the `LockManager` to use, for example `self.locks` | the installed one |
/// | `metric = "settle-order"` | what metrics and logs show in place of the key's template: 1 to 64 ASCII letters, digits and `-_.:/` | the key's template |
/// | `crate = PATH` | where `dlock` is re-exported | `::dlock` |
///
/// Durations are text (`"250ms"`, `"30s"`, `"1m30s"`, `"2h"`) or any expression of type `Duration`;
/// `wait` also takes an expression of type `Wait`. Text is checked during compilation, and so are
/// constants named in capitals (`ttl = config::LOCK_TTL`; an associated one, `Self::TTL`, where a
/// use of the function is compiled). A `ttl` is at least `100ms` and at most `24h`; a bare number
/// has no unit and is refused.
///
/// The expressions of `ttl`, `wait`, `max_hold`, `min_hold`, `enabled`, `manager` and `on_busy` see the
/// function's parameters; they are evaluated in each call before the body. So does `on_error`,
/// except for parameters that the body owns: all that are not `Copy`, as `String` and `&mut T`, and
/// that the body or the key names.
///
/// `min_hold` is for jobs that every replica starts by its own clock: the one that comes a little
/// late finds the lock taken. It holds whatever becomes of the body, and when the process ends in
/// good order; a killed process, which has not done the job, leaves its TTL only.
///
/// # Jobs
///
/// ```text
/// #[distributed_lock(key = "report:<day>", min_hold = "10m", on_busy = skip)]
/// async fn report(day: u32) -> Result<Option<Report>, JobError> { .. }
/// ```
///
/// With `on_busy = skip` a call that finds the lock busy does nothing. It implies `wait = never`, unless `wait` is set. Its
/// value follows from the return type:
///
/// | return type | value |
/// |---|---|
/// | `()` | `()` |
/// | `Option<T>` | `None` |
/// | `Result<(), E>` | `Ok(())` |
/// | `Result<Option<T>, E>` | `Ok(None)` |
///
/// Other failures are returned as [errors](#errors), so `()` and `Option<T>` need `on_error` as well. An expression is
/// meant by `{ skip }`.
///
/// # Calls without a lock
///
/// ```text
/// #[distributed_lock(key = "order:<id>", enabled = config.has_replicas)]
/// async fn settle(config: &Config, id: u64) -> Result<Receipt, OrderError> { .. }
/// ```
///
/// `enabled` is of type `bool` and is evaluated in each call, before everything else. If it is false the body runs without
/// a lock: no key is rendered, no other option is evaluated but `on_cancel`, and no manager needs to be installed. It is
/// for a service that has a single replica, for local development, and for a feature flag during a migration.
///
/// Such a call gives up everything that a lock is for. It excludes no other call, not even one in this process, and not
/// one that has the lock: while processes disagree about `enabled`, bodies run at the same time. Nothing of it
/// is counted, logged or seen by operators, `LockManager::shutdown` does not wait for it, and there is no fencing
/// token, so `enabled` and `lease` exclude each other.
///
/// # Documentation and list of locks
///
/// The function's documents end with a line about the lock. With the feature `registry` of
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
/// A name is a parameter of the function or `self`; names bound in patterns count, so
/// `Path((shop, id)): Path<(u32, u64)>` gives `<shop>` and `<id>`. `<self.tenant>`, `<order.id>`,
/// `<pair.0>` and `<user.name()>` reach further. The value must implement `KeyPart`; the key
/// borrows it before the body runs.
///
/// Text that looks like a placeholder of another notation and names a parameter is refused, since it would
/// be the same key in every call: `"order:id"`, `"order:$id"`, `"order:[id]"`, `"order:<<id>>"`. A name
/// in quotes is text: `"order:<'id'>"` is the key `order:id`.
///
/// The names are parameters to an editor, too: rust-analyzer goes from them to their declaration,
/// finds them, and renames them with it, and rustc underlines a misspelt one. This relies on how
/// compilers happen to read literals; if a new release ends it, or fails, set the environment
/// variable `DLOCK_WHOLE_SPANS` while compiling.
///
/// Values are escaped when they are rendered, so that different arguments never share a key. For
/// the same reason two placeholders need a delimiter such as `:` or `/` between them: letters,
/// digits, `-`, `_`, `.`, `~` and `%` may occur inside a value. The same template in two functions
/// is the same lock, on purpose.
///
/// # Several keys
///
/// ```text
/// #[distributed_lock(key = ["account:<from>", "account:<to>"])]
/// async fn transfer(from: u64, to: u64, cents: u64) -> Result<(), BankError> { .. }
/// ```
///
/// All of them are held in the body, or none, and they are asked for at once. Calls never deadlock,
/// in whatever order they name their keys: a call holds what comes before the key that it waits for
/// in the order of keys, and nothing behind it. That is so of the keys of one function: a locked
/// function that is called in the body waits while those are held. Values that make two keys equal,
/// as a transfer to oneself, make them one; the same template twice is refused as a mistake.
///
/// `wait` is for all of them together, and `on_busy` and `LockError::Busy` are for any that was
/// held all the time. The body ends as soon as one lease is lost, and the error names its key.
/// `lease.fencing_tokens()` has the fencing token of each, `lease.fencing_token()` is that of the first.
/// `max_hold` counts from when all are there and the body begins, `min_hold` for each from when it was
/// got; what is given back because another one is busy is not kept for its `min_hold`.
///
/// # Errors
///
/// The function returns a `LockError`, through `From` or `on_error`, when the lock is busy for all
/// of `wait`, when the store cannot be reached, when the values make no valid key, or when no
/// manager is installed; in these cases the body has not run. It also does when the lease was lost
/// under the body (`LockError::Lost`), unless `on_lost = finish`. A release that fails is not the
/// caller's problem: the body's result is returned.
///
/// The result is kept while the lock is given back; so the function's future is `Send` only if its
/// result is: `Box<dyn Error>` is not, `Box<dyn Error + Send + Sync>` is. Likewise it is `Sync` if the
/// body's future and the result are.
///
/// A function without a return value needs `on_error`, since it has no room for a failure.
///
/// # Cancel safety
///
/// Nothing happens before the future is polled. Dropped while it waits, the function leaves the
/// queue; dropped while the body runs, it drops the body first and then gives the lock back in the
/// background. The body itself must tolerate being dropped at any await, as it must without a lock.
///
/// With `on_cancel = detach` a body that has begun ends: dropped while it runs, the function hands
/// it to a task of its own, with the lock and the arguments. They must be owned, and they and what
/// the body returns must be `Send`. As long as the caller is there nothing is spawned, and the body
/// sees the task-locals of its caller. A runtime that shuts down drops that task as all others;
/// `dlock::shutdown` waits for it. A runtime of a single thread has to be driven: between two
/// `block_on`s the task pauses, with the lock. The body's result has no reader then: the body has to
/// store or log itself whatever must not get lost.
///
/// Arguments are dropped before the lock is given back, whether the body uses them or not. Those that
/// are bound to nothing (`_: T`), by reference only (`ref name`), or under
/// `#[expect(unused_variables)]`, and those that `on_error` names and the body does not, are dropped
/// after, and with `on_cancel = detach` when the caller goes, while the body goes on; name them `_name`
/// if that matters.
///
/// # With other attributes
///
/// | attribute | order |
/// |---|---|
/// | `#[async_trait]` | on the method, inside the `impl`; arguments that are patterns have no names for the key |
/// | `#[tokio::main]`, `#[tokio::test]`, `#[actix_web::main]`, `#[rstest]` | `#[distributed_lock]` above: they make a plain function of an async one |
/// | `#[tracing::instrument]` | above: waiting for the lock is outside the span. Below: inside it |
/// | `#[cached]` and others that copy the function | `#[distributed_lock]` above, or each copy asks for the lock, and the one that another calls is refused with `LockError::WouldDeadlock` |
/// | `#[axum::debug_handler]`, routes of actix, `#[bon::builder]` | any |
/// | `#[async_recursion]` | any; a recursive call with the same key is refused as a deadlock |
///
/// A plain function that ends in `async move { .. }` or `Box::pin(async move { .. })` is guarded as an async one: statements
/// before it run when the function is called, before the lock.
///
/// # Plain functions
///
/// ```text
/// #[distributed_lock(key = "import:<feed>", wait = "1m", lease = lease, on_lost = finish)]
/// fn import(feed: &str) -> Result<u64, LockError> { .. }
/// ```
///
/// A function that is not `async` blocks its thread, while it waits for the lock and while it runs. It needs no runtime:
/// timers, connections and renewals are on threads of dlock's own. All that is said above of keys, errors and values is
/// true of it, and the arguments are dropped before the lock is given back.
///
/// - A thread cannot be stopped. So `on_lost = finish` has to be written: the body runs to its end although its lease is lost.
///   It can ask `lease.is_lost()` and `lease.ensure_held()`, and the call then ends in `LockError::Lost`; what the body has
///   returned is dropped. `on_cancel` is refused, since no caller can drop a call that has begun.
/// - A panic gives the lock back before it goes on.
/// - A call for the same lock on the same thread, inside of the body, is refused with `LockError::WouldDeadlock`.
/// - Inside of an async task, whose thread must not be blocked, the call is refused with `LockError::WouldBlock`. Inside of
///   `spawn_blocking` and `block_in_place` it is in its place. A task under `tokio::task::unconstrained` is not recognized, and
///   tokio panics there.
/// - `dlock::blocking::with_manager` gives the calls of one thread a manager of their own.
///
/// # Expansion
///
/// The signature, the attributes and the body stay as they are; no new function is made. This
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

/// Lets a type of your own be a value of a lock key.
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
/// | struct with one field | that of the field |
/// | struct with several fields | all of them, kept apart (`PartWriter::push_part`): still one value, without delimiters |
/// | enum without fields | the name of the variant |
///
/// Fields are taken in the order of the source; their names are not part of the key. Fields whose
/// type is called `PhantomData` are left out. To reorder or rename what is in a key is to change
/// the key: while two versions of a program run, they do not lock each other out.
///
/// # Options
///
/// | option | on | meaning |
/// |---|---|---|
/// | `#[key_part(skip)]` | a field | it does not identify the value and is left out |
/// | `#[key_part(rename_all = "snake_case")]` | an enum | names in another case, letter for letter as serde writes them: `lowercase`, `UPPERCASE`, `PascalCase`, `camelCase`, `snake_case`, `SCREAMING_SNAKE_CASE`, `kebab-case`, `SCREAMING-KEBAB-CASE` |
/// | `#[key_part(rename = "sent")]` | a variant | this very name, which may be any text |
/// | `#[key_part(crate = path)]` | the type | where `dlock` is re-exported; `::dlock` if not set |
///
/// # What is refused
///
/// Unions, enums whose variants have fields, types without anything that could identify a value,
/// and two variants of one name. Write such a `KeyPart` by hand.
///
/// # Generics
///
/// The impl is bounded by `KeyPart` for the types of those fields that mention a type parameter:
/// `struct Id<T>(u64, PhantomData<T>)` needs no `T: KeyPart`. A field whose type contains the
/// derived type itself adds no bound.
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
