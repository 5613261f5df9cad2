//! Turns a `Plan` into tokens. This stage cannot fail.
//!
//! Generated tokens have mixed-site spans: the user's code cannot see our variables, and style lints ignore
//! them. Such spans do not keep the user's items out. A unit struct `value`, which actix generates for a
//! handler, would change the meaning of our pattern `value`. A method that a trait adds to every type
//! precedes one that borrows. Our variables therefore begin with `__`, and methods are called by their path.
//!
//! The user's tokens keep their spans and their braces, because rustc reports a missing value at the braces.
//! The same is true of the block around the body and of the values that leave it: rustc then reports a
//! mistake in the body as in a function without a lock. The body occurs in the expansion exactly once.

mod enabled;
mod settings;
mod skip;
mod spans;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, ExprReference, Ident, Stmt, Token, Type, token};

use crate::doc;
use crate::params::Param;
use crate::plan::{Key, KeyPiece, Output, Plan};
use crate::target::{Shape, Target};

use self::spans::site;
pub(crate) use self::spans::{private, site_at};

/// Returns the function with its body guarded.
//
// Input:   async fn pay(id: u64) -> Ret { BODY }
// Output:  async fn pay(id: u64) -> Ret { GUARDED }
//
// Input:   fn pay(..) -> Pin<Box<..>> { HEAD; Box::pin(async move { BODY }) }
// Output:  fn pay(..) -> Pin<Box<..>> { HEAD; Box::pin(async move { GUARDED }) }
pub(crate) fn expand(plan: &Plan, target: &Target) -> TokenStream {
    let body = match &target.shape {
        Shape::AsyncFn | Shape::Blocking | Shape::Unknown => {
            let braced = match &target.as_written {
                Some(group) => group.clone(),
                None => in_braces(target.brace, &target.body),
            };
            guarded(plan, target, target.brace, &braced)
        }
        Shape::Block(trailing) => {
            let mut block = trailing.block.clone();
            let stmts = &block.block.stmts;
            let brace = block.block.brace_token;
            let braced = in_braces(brace, &quote!(#(#stmts)*));
            let body = guarded(plan, target, brace, &braced);
            // A function's signature states its output. A block learns its output from the first `return`,
            // which would be in one of these expressions.
            let hint = evaluates(plan).then(|| hint(plan));
            // Other attributes look for exactly this form and wrap it in names with the hygiene of its
            // braces. The tokens must therefore be the user's.
            let inside = Expr::Verbatim(quote!(#hint #body));
            block.block.stmts = vec![Stmt::Expr(inside, None)];
            let tail = match trailing.boxed.clone() {
                Some(mut call) => {
                    call.args.push(Expr::Async(block));
                    call.into_token_stream()
                }
                None => block.into_token_stream(),
            };
            let head = &trailing.head;
            quote!(#(#head)* #tail)
        }
    };
    function(&doc::attributes(plan, target), target, &body)
}

/// Returns the function as written, with `checks` before its body.
pub(crate) fn unguarded(target: &Target, checks: &TokenStream) -> TokenStream {
    let Target {
        attrs,
        vis,
        sig,
        body,
        ..
    } = target;
    match &target.as_written {
        Some(braced) if checks.is_empty() => quote!(#(#attrs)* #vis #sig #braced),
        _ => function(&quote!(#(#attrs)*), target, &quote!(#checks #body)),
    }
}

fn in_braces(brace: token::Brace, body: &TokenStream) -> Group {
    let mut braced = Group::new(Delimiter::Brace, body.clone());
    braced.set_span(brace.span.join());
    braced
}

fn function(attrs: &TokenStream, target: &Target, inside: &TokenStream) -> TokenStream {
    let Target {
        vis,
        sig,
        inner_attrs,
        ..
    } = target;
    // With our braces the whole function would count as ours, and rustc would not report it as unused.
    let mut function = quote!(#attrs #vis #sig);
    target.brace.surround(&mut function, |braced| {
        braced.extend(quote!(#(#inner_attrs)* #inside));
    });
    function
}

/// Returns the body under the lock.
//
// Everything is awaited in place: an `async fn run(key, body)` would store the body's future again at every
// level of nested calls. The pieces of the key are borrowed in one statement without an await, so they need
// not be `Send`. A lock failure leaves the block by its label, so the user's `on_error` is written once.
fn guarded(plan: &Plan, target: &Target, brace: token::Brace, body: &Group) -> TokenStream {
    let private = private(plan.krate.as_ref(), site());
    let lock_site = lock_site(plan, target);
    // For editors only: a compiler would check that the values can be displayed.
    let names: Vec<_> = plan
        .keys
        .iter()
        .filter_map(|key| key.names.as_ref())
        .collect();
    let editors = (!names.is_empty()).then(|| {
        quote_spanned! {site()=>
            #private::in_editors! { #(let _ = ::core::format_args!(#names);)* }
        }
    });
    let removed = removed(plan);
    let acquiring = acquiring(plan);
    // The guard has the name of the lease, if there is one. If a value keeps the lease longer than the body,
    // rustc reports that this prevents the release of that name.
    let guard = match &plan.lease {
        Some(name) if !name.to_string().starts_with('_') => name.clone(),
        _ => Ident::new("__guard", site()),
    };
    // All tokens have one place: rustc reports errors at the same place once.
    let borrowed = quote_spanned!(guard.span()=> &#guard);
    let busy = plan.on_busy.as_ref().map(|busy| {
        let value = skip::value(plan, busy);
        quote_spanned! {site()=>
            ::core::result::Result::Err(__error) if #private::is_busy(&__error) => return #value,
        }
    });
    let allow_busy = plan.on_busy.as_ref().and_then(skip::allowed);
    let guard_type = enabled::guard_type(plan);
    let run = enabled::run(plan);
    let lease = plan
        .lease
        .as_ref()
        .map(|_| quote_spanned!(site()=> let __lease = #private::#guard_type::lease(#borrowed);));
    let awaited = (!plan.blocking).then(|| quote_spanned!(site()=> .await));
    // Without a handler the block yields a `Result`, which is not a future. With one, a function may return a
    // future, and rustc would report a missing `.await` at the block that yields it.
    let allow = plan
        .on_error
        .as_ref()
        .map(|_| quote_spanned!(site()=> #[allow(clippy::async_yields_async)]));
    let body = watched(plan, brace, body);
    let section = quote_spanned! {site()=>
        #lease
        let __output = #private::#guard_type::#run(#borrowed, #allow #body)#awaited;
    };
    // The value is kept here across an await. It may prevent the function's future from being `Send`.
    let place = match &plan.output {
        Output::Known(ty) => site_at(ty.span()),
        Output::Inferred => site(),
    };
    let output = Ident::new("__output", site());
    let at_type = self::private(plan.krate.as_ref(), place);
    let finish = enabled::finish(plan, place);
    let finish = quote_spanned!(place=> #at_type::#finish(#guard, #output)#awaited);
    let settled = match plan.detach {
        None => quote_spanned!(site()=> #section match #finish),
        // A value that a task cannot own is reported at the word that requests the task.
        Some(place) => {
            let run = quote_spanned!(site_at(place)=> run);
            let detach = enabled::detach(plan);
            quote_spanned! {site()=>
                match #private::#detach(#borrowed).#run(async move {
                    #section
                    #finish
                }).await
            }
        }
    };
    let failure = failure(plan);
    let value = value(plan);

    let asked = quote_spanned! {site()=>
        let __site = #lock_site;
        #[allow(clippy::used_underscore_binding)]
        let __acquiring = #acquiring;
    };
    let answered = quote_spanned! {site()=>
        match __acquiring #awaited {
            ::core::result::Result::Ok(__guard) => __guard,
            #busy
            ::core::result::Result::Err(__error) => break 'locked __error,
        }
    };
    let answered = enabled::guard(plan, &asked, &answered);
    let asked = plan.enabled.is_none().then_some(asked);
    let condition = enabled::condition(plan);

    quote_spanned! {site()=>
        #editors
        #removed
        #condition
        let __error: #private::LockError = 'locked: {
            #asked
            #allow_busy
            let #guard = #answered;
            #settled {
                ::core::result::Result::Ok(#value) => return #value,
                ::core::result::Result::Err(__error) => __error,
            }
        };
        #failure
    }
}

/// Returns the name of the body's value on its way out. A missing lifetime is reported there, and shown at
/// the return type, as for the user's own code.
fn value(plan: &Plan) -> Ident {
    let place = match &plan.output {
        Output::Known(ty) => ty.span(),
        Output::Inferred => site(),
    };
    Ident::new("__value", place)
}

/// Returns the future that acquires the lock.
fn acquiring(plan: &Plan) -> TokenStream {
    let private = private(plan.krate.as_ref(), site());
    let options = settings::calls(plan, false);
    let (acquire, keys) = match plan.keys.as_slice() {
        [key] if !key.shared => ("acquire", self::key(plan, key)),
        keys => {
            let is_mixed = keys.iter().any(|key| key.shared);
            let keys = keys.iter().map(|key| {
                let rendered = self::key(plan, key);
                if key.shared {
                    quote_spanned!(site()=> #private::shared_key(#rendered))
                } else if is_mixed {
                    quote_spanned!(site()=> #private::own_key(#rendered))
                } else {
                    rendered
                }
            });
            let keys = quote_spanned!(site()=> #private::keys([#(#keys),*]));
            ("acquire_all", keys)
        }
    };
    let way = if plan.blocking { "_blocking" } else { "" };
    let acquire = Ident::new(&format!("{acquire}{way}"), site());
    let acquire = |manager: TokenStream| {
        quote_spanned! {site()=>
            #private::#acquire(__site, __site.options() #options, #manager, #keys)
        }
    };
    let Some(manager) = &plan.manager else {
        return acquire(quote_spanned!(site()=> ::core::option::Option::None));
    };
    let place = site_at(manager.span());
    // As an expression: it parenthesizes `a as B`, because `&` binds tighter.
    let borrow = ExprReference {
        attrs: Vec::new(),
        and_token: Token![&](place),
        mutability: None,
        expr: Box::new(manager.clone()),
    };
    // A pattern instead of a call: rustc reports errors in a call of `Some` at the whole attribute.
    let name = Ident::new("__manager", place);
    let acquire = acquire(quote_spanned!(site()=> ::core::option::Option::Some { 0: #name }));
    // Bound first: otherwise the expected type would affect a `?` of the expression.
    quote_spanned!(site()=> match #borrow { #name => #acquire })
}

/// Returns the guarded block: type hint, captures, lease, and the user's braces.
fn watched(plan: &Plan, brace: token::Brace, body: &Group) -> TokenStream {
    // A closure states its output by its type.
    let hint = (!plan.blocking).then(|| hint(plan));
    let owned = uses(&plan.captures);
    // Separate variables with the user's name and place: rustc reports about them what it would report about
    // the parameters. They are in the body's scope, because a macro in the body may use them.
    let unused = plan.unused.iter().map(|Param { ident, cfgs, .. }| {
        quote_spanned! {site()=>
            #(#cfgs)*
            #[allow(clippy::let_unit_value, clippy::redundant_locals, clippy::shadow_same)]
            let #ident = #ident;
        }
    });
    let unused = quote!(#(#unused)*);
    let captures = (!plan.captures.is_empty())
        .then(|| quote_spanned!(site()=> #[allow(clippy::used_underscore_binding)] { #owned }));
    let lease = plan.lease.as_ref().map(|name| {
        quote_spanned! {site()=>
            #[allow(
                clippy::no_effect_underscore_binding,
                clippy::shadow_reuse,
                clippy::shadow_unrelated
            )]
            let #name = __lease;
        }
    });
    // Without a label, braces around one expression would be reported as unused. Other bodies have none: rustc would
    // ask for a label where a `break` is outside of a loop.
    let is_semicolon = |tree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ';');
    let is_one_expression = !body.stream().into_iter().any(is_semicolon);
    let label = is_one_expression.then(|| quote_spanned!(body.span_open()=> '__body:));
    // In a block with our span, rustc treats the names as ours, and omits them when it reports a wrong move
    // or borrow.
    let whole = brace.span.join();
    let mut block = match &plan.output {
        _ if !plan.blocking => quote_spanned!(whole=> async move),
        // An explicit unit type would be reported by a lint.
        Output::Known(ty) if !is_unit(ty) => quote_spanned!(whole=> move || -> #ty),
        _ => quote_spanned!(whole=> move ||),
    };
    brace.surround(&mut block, |inside| {
        inside.extend(quote!(#hint #captures #unused #lease #label #body));
    });
    block
}

/// Returns statements that use these parameters and have no effect.
pub(crate) fn uses<'a>(params: impl IntoIterator<Item = &'a Param>) -> TokenStream {
    let use_of =
        |Param { ident, cfgs, .. }: &Param| quote_spanned!(site()=> #(#cfgs)* let _ = &#ident;);
    params.into_iter().map(use_of).collect()
}

/// States the output of a block before its first `?` or coercion needs it. This branch is never taken.
fn hint(plan: &Plan) -> TokenStream {
    match &plan.output {
        Output::Known(ty) => {
            // A value of another type is reported at the user's type and not at our code.
            let output = Ident::new("__output", ty.span());
            quote_spanned! {site_at(ty.span())=>
                if let ::core::option::Option::Some(#output) = ::core::option::Option::None::<#ty> {
                    return #output;
                }
            }
        }
        Output::Inferred => TokenStream::new(),
    }
}

fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty())
}

/// Returns `true` if expressions of the user precede the body: they may return and use `?`.
fn evaluates(plan: &Plan) -> bool {
    plan.manager.is_some() || plan.on_busy.is_some() || settings::computed(plan).next().is_some()
}

/// Returns a reference to the static description of this function's lock.
fn lock_site(plan: &Plan, target: &Target) -> TokenStream {
    let private = private(plan.krate.as_ref(), site());
    let function = target.sig.ident.unraw().to_string();
    let templates = plan.keys.iter().map(|key| &key.template);
    let options = settings::calls(plan, true);
    let computed = settings::computed(plan);
    let metric = plan.metric.iter();
    let shared = plan.keys.iter().map(|key| key.shared);
    let has_shared = plan.keys.iter().any(|key| key.shared);
    let shared = has_shared.then(|| quote_spanned!(site()=> ; [#(#shared),*]));
    quote_spanned! {site()=>
        #private::site!(
            #function, [#(#templates),*], [#options], [#(#computed),*] #(, #metric)* #shared
        )
    }
}

fn key(plan: &Plan, key: &Key) -> TokenStream {
    let private = private(plan.krate.as_ref(), site());
    let template = &key.template;
    let pieces = key.pieces.iter().map(|piece| match piece {
        KeyPiece::Text(text) => quote_spanned!(site()=> #private::text(#text)),
        // A message about the value's type points at the placeholder.
        KeyPiece::Part(value, place, removed) => {
            let private = self::private(plan.krate.as_ref(), *place);
            let cfgs = removed.iter().flat_map(|removed| &removed.cfgs);
            let borrow = Token![&](site_at(value.span()));
            quote_spanned!(*place=> #(#cfgs)* #private::part(#borrow #value))
        }
    });
    quote_spanned!(site()=> #private::key(#template, &[#(#pieces),*]))
}

/// Returns the errors for parameters in keys that a `#[cfg]` has removed.
fn removed(plan: &Plan) -> TokenStream {
    let pieces = plan.keys.iter().flat_map(|key| &key.pieces);
    let removed = pieces.filter_map(|piece| match piece {
        KeyPiece::Part(_, _, Some(removed)) => {
            let (otherwise, error) = (&removed.otherwise, &removed.error);
            Some(quote!(#otherwise #error))
        }
        _ => None,
    });
    quote!(#(#removed)*)
}

/// Returns the code that leaves the function with `error`.
fn failure(plan: &Plan) -> TokenStream {
    let private = private(plan.krate.as_ref(), site());
    let value = match (&plan.on_error, &plan.output) {
        // Through a function with a bound instead of a call: only then does a closure learn the type of its
        // argument, so that `|error| error.to_string()` needs no annotation.
        (Some(handler), _) => quote_spanned! {site()=>
            ::core::result::Result::<_, #private::LockError>::unwrap_or_else(
                ::core::result::Result::Err(__error),
                #handler,
            )
        },
        // One bound in one place: a type that cannot represent the error is reported here.
        (None, Output::Known(ty)) => quote_spanned! {site_at(ty.span())=>
            <#ty as #private::Fallible>::from_lock_error(__error)
        },
        (None, Output::Inferred) => {
            quote_spanned!(site()=> #private::Fallible::from_lock_error(__error))
        }
    };
    match plan.output {
        Output::Known(_) => quote_spanned!(site()=> return #value;),
        // Returning the never type would be reported as unreachable.
        Output::Inferred => value,
    }
}
