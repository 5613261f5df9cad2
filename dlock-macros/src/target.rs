//! The annotated item: an `async fn`, a plain function that returns an `async` block's future, or one that
//! blocks.
//!
//! The body stays raw tokens. It is parsed only if the function is not `async`, to find the block that
//! `#[async_trait]` and similar attributes put at its end.

use std::collections::HashMap;

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{
    Attribute, Block, Expr, ExprAsync, ExprCall, Item, Pat, Signature, Stmt, Token, Visibility,
    token,
};

use crate::future;
use crate::idents;
use crate::message::{Fault, Faults};
use crate::params::{self, Param};

/// A variable that marks an expansion: a body that contains it has been expanded before.
pub(crate) const MARK: &str = "__acquiring";

/// A word that a body contains if it makes a future.
pub(crate) const ASYNC: &str = "async";

/// A function that can be guarded.
pub(crate) struct Target {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// The user's braces: rustc's message about a missing tail points at them.
    pub(crate) brace: token::Brace,
    /// `#![allow(..)]` at the start of the body.
    pub(crate) inner_attrs: Vec<Attribute>,
    /// The braces with the body, unless attributes are inside. A token of ours in their place has one span for both
    /// braces, and rustc would report twice what is missing before the last one.
    pub(crate) as_written: Option<Group>,
    /// The body without its braces.
    pub(crate) body: TokenStream,
    /// All identifiers in the body, with their rank. They are collected once, because asking the compiler for each
    /// takes time.
    pub(crate) names: HashMap<String, usize>,
    pub(crate) params: Vec<Param>,
    pub(crate) shape: Shape,
}

pub(crate) enum Shape {
    AsyncFn,
    /// A plain function that blocks its thread.
    Blocking,
    /// `fn f(..) -> .. { head; Box::pin(async move { .. }) }`, with or without `Box::pin`.
    Block(Box<TrailingBlock>),
    /// None of these. It has been reported, and no plan is made.
    Unknown,
}

pub(crate) struct TrailingBlock {
    /// Statements before the block. They run when the function is called, before the lock is acquired.
    pub(crate) head: Vec<Stmt>,
    /// The call of `Box::pin` as written, without its argument.
    pub(crate) boxed: Option<ExprCall>,
    pub(crate) block: ExprAsync,
}

/// Reads the annotated item. Returns `None` if it is not a function with a body.
pub(crate) fn parse(item: TokenStream, faults: &mut Faults) -> Option<Target> {
    let parsed = (|input: ParseStream<'_>| parse_item(input, faults)).parse2(item);
    faults.keep(parsed)
}

fn parse_item(input: ParseStream<'_>, faults: &mut Faults) -> syn::Result<Target> {
    let mut attrs = input.call(Attribute::parse_outer)?;
    let vis: Visibility = input.parse()?;
    if !is_function(input) {
        return Err(
            Fault::new("`#[distributed_lock]` can only be applied to a function")
                .help("move it to an `async fn` or a plain `fn`")
                .at(input.span()),
        );
    }
    let sig: Signature = input.parse()?;
    if input.peek(Token![;]) {
        return Err(
            Fault::new("`#[distributed_lock]` needs a function with a body")
                .help("move it to the method in each `impl`")
                .at(input.span()),
        );
    }
    let content;
    let as_written = input.fork().parse().ok();
    let brace = syn::braced!(content in input);
    let inner_attrs = content.call(Attribute::parse_inner)?;
    let body: TokenStream = content.parse()?;
    refuse_second(&mut attrs, faults);
    // The attribute above has another name here and was expanded first.
    let names = idents::names(body.clone());
    if names.contains_key(MARK) {
        faults.push(second().at(Span::call_site()));
    }

    let shape = if sig.asyncness.is_some() {
        Shape::AsyncFn
    } else {
        faults
            .keep(plain(&sig, &body, &names))
            .unwrap_or(Shape::Unknown)
    };
    Ok(Target {
        params: params::parameters(&sig),
        attrs,
        vis,
        sig,
        brace,
        as_written: as_written.filter(|_| inner_attrs.is_empty()),
        inner_attrs,
        body,
        names,
        shape,
    })
}

impl Target {
    /// Returns the names that `#[async_trait]` destructures inside the body, where the key cannot use them.
    pub(crate) fn hidden_names(&self) -> Vec<String> {
        let Shape::Block(trailing) = &self.shape else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for stmt in &trailing.block.block.stmts {
            if let Stmt::Local(local) = stmt
                && let Some(init) = &local.init
                && mentions_hidden_argument(init.expr.to_token_stream())
                && !matches!(local.pat, Pat::Ident(_))
            {
                params::bindings(&local.pat, &mut |ident| names.push(ident.to_string()));
            }
        }
        names
    }
}

/// Returns `true` for `__arg3`, the name that `#[async_trait]` gives an argument that was a pattern.
pub(crate) fn is_hidden_argument(name: &str) -> bool {
    name.strip_prefix("__arg")
        .is_some_and(|digits| digits.chars().all(|c| c.is_ascii_digit()))
}

fn mentions_hidden_argument(tokens: TokenStream) -> bool {
    idents::mentions(tokens, &|ident| is_hidden_argument(&ident.to_string()))
}

/// Returns `true` if the attribute is on an expression, where attributes are not allowed.
pub(crate) fn is_expression(item: &TokenStream) -> bool {
    let is_item =
        syn::parse2::<Item>(item.clone()).is_ok_and(|item| !matches!(item, Item::Verbatim(_)));
    let expression = syn::parse2::<Expr>(item.clone());
    let is_one = matches!(
        expression,
        Ok(Expr::Closure(_) | Expr::Async(_) | Expr::Block(_))
    );
    is_one && !is_item
}

/// Skips the qualifiers of a function to find its `fn`.
fn is_function(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    while ahead.peek(Token![const]) || ahead.peek(Token![async]) || ahead.peek(Token![unsafe]) {
        if ahead.parse::<TokenTree>().is_err() {
            return false;
        }
    }
    if ahead.peek(Token![extern]) && ahead.call(syn::Abi::parse).is_err() {
        return false;
    }
    ahead.peek(Token![fn])
}

/// Reports a second attribute and removes it. If it stayed, it would report everything again.
fn refuse_second(attrs: &mut Vec<Attribute>, faults: &mut Faults) {
    if let Some(second) = attrs.iter().find(|attr| is_our_attribute(attr)) {
        faults.push(self::second().over(second));
    }
    attrs.retain(|attr| !is_our_attribute(attr));
}

fn second() -> Fault {
    Fault::new("multiple `#[distributed_lock]` attributes on one function")
        .help("to hold both locks, write a list: `key = [\"account:<from>\", \"account:<to>\"]`")
        .note("the lock of the lower attribute would be acquired first")
}

/// Compares the full path: `#[other::distributed_lock]` is another macro.
pub(crate) fn is_our_attribute(attr: &Attribute) -> bool {
    let mut segments = attr.path().segments.iter().map(|segment| &segment.ident);
    match (segments.next(), segments.next(), segments.next()) {
        (Some(name), None, None) => name == "distributed_lock",
        (Some(krate), Some(name), None) => krate == "dlock" && name == "distributed_lock",
        _ => false,
    }
}

/// Returns the shape of a function that is not `async`.
fn plain(
    sig: &Signature,
    body: &TokenStream,
    names: &HashMap<String, usize>,
) -> syn::Result<Shape> {
    // If the body cannot be parsed, rustc's message is better.
    let head = Block::parse_within.parse2(body.clone()).unwrap_or_default();
    let async_fn = head.iter().find_map(async_fn_inside);
    if let Some(block) = trailing_block(head) {
        return Ok(Shape::Block(Box::new(block)));
    }
    if future::is_returned(&sig.output) {
        // The lock would cover the call that creates the future, but not the work of the future.
        return Err(async_fn.map_or_else(|| hidden_future(sig, names), too_old));
    }
    if let Some(constness) = &sig.constness {
        return Err(Fault::new("a `const fn` cannot acquire a lock")
            .help("remove `const`")
            .at(constness.span));
    }
    Ok(Shape::Blocking)
}

fn hidden_future(sig: &Signature, names: &HashMap<String, usize>) -> syn::Error {
    const MAKE_FINDABLE: &str =
        "write `async fn`, or end the function with `async { .. }` or `Box::pin(async { .. })`";
    let mut lifetimes = sig.generics.lifetimes();
    let place = sig.fn_token.span;
    if lifetimes.any(|param| param.lifetime.ident == "async_trait") {
        // The function is an `async fn` already.
        return Fault::new("an attribute above `#[distributed_lock]` has rewritten the body")
            .help("put `#[distributed_lock]` above that attribute")
            .at(place);
    }
    let fault = Fault::new("`#[distributed_lock]` does not find the body of the returned future");
    if names.contains_key(ASYNC) {
        fault
            .help("if another attribute has rewritten the body, put `#[distributed_lock]` above that attribute")
            .help(format!("otherwise {MAKE_FINDABLE}"))
    } else {
        fault.help(MAKE_FINDABLE)
    }
    .at(place)
}

/// Returns the block at the end of the body, if it creates a future.
fn trailing_block(mut head: Vec<Stmt>) -> Option<TrailingBlock> {
    let Some(Stmt::Expr(last, None)) = head.pop() else {
        return None;
    };
    let (boxed, inner) = match last {
        Expr::Call(mut call) if is_box_pin(&call.func) && call.args.len() == 1 => {
            let inner = call.args.pop();
            (Some(call), inner)
        }
        other => (None, Some(other)),
    };
    let Some(Expr::Async(mut block)) = inner else {
        return None;
    };
    // Generated code uses what the body owns, so the block has to own it too. A block that is returned borrows nothing
    // of its function anyway.
    let place = block.async_token.span;
    block.capture.get_or_insert_with(|| Token![move](place));
    Some(TrailingBlock { head, boxed, block })
}

/// Returns the function to which old versions of `#[async_trait]` moved the body.
fn async_fn_inside(stmt: &Stmt) -> Option<Span> {
    match stmt {
        Stmt::Item(Item::Fn(inner)) => {
            inner.sig.asyncness.as_ref()?;
            Some(inner.sig.fn_token.span)
        }
        _ => None,
    }
}

fn too_old(place: Span) -> syn::Error {
    Fault::new("`#[distributed_lock]` cannot guard a body in an inner `async fn`")
        .help("if `#[async_trait]` moved the body, upgrade `async-trait` to 0.1.44 or later")
        .at(place)
}

/// Compares the end of the path: `#[async_trait]` writes `Box::pin`, `#[instrument]`
/// `::std::boxed::Box::pin`.
fn is_box_pin(function: &Expr) -> bool {
    let Expr::Path(path) = function else {
        return false;
    };
    let mut from_end = path
        .path
        .segments
        .iter()
        .rev()
        .map(|segment| &segment.ident);
    from_end.next().is_some_and(|last| last == "pin")
        && from_end.next().is_some_and(|before| before == "Box")
}
