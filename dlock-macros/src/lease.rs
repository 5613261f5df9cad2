//! The body's name for the lease, and uses of it that cannot compile and that rustc reports without a way out.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

use crate::args::{Args, Given, Opt};
use crate::message::{Fault, Faults};
use crate::plan::Plan;
use crate::target::Target;
use crate::values;

/// The name in all examples.
const USUAL: &str = "lease";

/// Returns the name of the lease, which must differ from the names of the parameters.
pub(crate) fn name(given: &Given, target: &Target) -> syn::Result<Ident> {
    let lease = values::new_name(given)?;
    if target.params.iter().any(|param| lease == param.name()) {
        return Err(
            Fault::new(format!("`lease = {lease}` shadows the parameter `{lease}`"))
                .help("choose another name for the lease")
                .over(&given.value),
        );
    }
    Ok(lease)
}

/// Reports a lease that the body uses without the option, or in a task that can outlive it.
pub(crate) fn check(args: &Args, plan: &Plan, target: &Target, faults: &mut Faults) {
    if let Some(used) = unnamed(args, target) {
        faults.push(
            Fault::new(format!("the body uses `{USUAL}`, which has no value"))
                .help(format!(
                    "to name the lease, write `lease = {USUAL}` in the attribute"
                ))
                .at(used.span()),
        );
    }
    if let Some(name) = &plan.lease
        && let Some(used) = in_a_task(&name.to_string(), &target.body)
    {
        faults.push(
            Fault::new(format!("a spawned task cannot use the lease `{name}`, because it can outlive the body"))
                .help(format!("read what the task needs before, for example `let token = {name}.fencing_token();`, or await the work in the body"))
                .at(used.span()),
        );
    }
}

/// Returns the use of a lease without the option that names it.
///
/// A static or a local variable may have that name. So only a method call counts, and only if the body mentions the
/// name nowhere before: what it has bound by itself, it has mentioned.
pub(crate) fn unnamed(args: &Args, target: &Target) -> Option<Ident> {
    let is_param = target.params.iter().any(|param| param.name() == USUAL);
    if is_param || args.mentions(Opt::Lease) || !target.names.contains_key(USUAL) {
        return None;
    }
    let first = mentions(target.body.clone(), USUAL).into_iter().next()?;
    first.is_used.then_some(first.name)
}

/// Returns a use of `name` inside of a task or thread. A body that gives the name another meaning is left to rustc.
fn in_a_task(name: &str, body: &TokenStream) -> Option<Ident> {
    let all = mentions(body.clone(), name);
    if !all.iter().all(|mention| mention.is_used) {
        return None;
    }
    let mut tasks = Vec::new();
    spawned(body.clone(), &mut tasks);
    let mut first = tasks
        .into_iter()
        .filter_map(|task| mentions(task, name).into_iter().next());
    first.next().map(|first| first.name)
}

struct Mention {
    name: Ident,
    /// `true` for `name.method`.
    is_used: bool,
}

/// Returns all mentions of a variable in order, but not those of a field, a path or a label with its name.
fn mentions(tokens: TokenStream, name: &str) -> Vec<Mention> {
    let trees: Vec<_> = tokens.into_iter().collect();
    let is_punct = |at: Option<usize>, wanted: char| {
        let tree = at.and_then(|at| trees.get(at));
        matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
    };
    let mut found = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Group(group) => found.extend(mentions(group.stream(), name)),
            TokenTree::Ident(ident) if ident == name => {
                let (last, before) = (at.checked_sub(1), at.checked_sub(2));
                let is_field = is_punct(last, '.') && !is_punct(before, '.');
                let is_path = is_punct(last, ':') && is_punct(before, ':');
                if !is_field && !is_path && !is_punct(last, '\'') {
                    let method = trees.get(at + 2);
                    found.push(Mention {
                        name: ident.clone(),
                        is_used: is_punct(Some(at + 1), '.')
                            && matches!(method, Some(TokenTree::Ident(_))),
                    });
                }
            }
            _ => {}
        }
    }
    found
}

/// Finds the code of each task and thread that the body starts by a function that demands `'static`. A
/// method may be that of a scope.
fn spawned(tokens: TokenStream, found: &mut Vec<TokenStream>) {
    const FUNCTIONS: &[&str] = &["spawn", "spawn_blocking", "spawn_local"];
    const MODULES: &[&str] = &["task", "thread", "tokio"];
    let trees: Vec<_> = tokens.into_iter().collect();
    for window in trees.windows(5) {
        let [
            TokenTree::Ident(module),
            TokenTree::Punct(_),
            TokenTree::Punct(colon),
            TokenTree::Ident(function),
            TokenTree::Group(group),
        ] = window
        else {
            continue;
        };
        let begins_code = match group.stream().into_iter().next() {
            Some(TokenTree::Ident(word)) => word == "async" || word == "move",
            Some(TokenTree::Punct(punct)) => punct.as_char() == '|',
            _ => false,
        };
        if MODULES.iter().any(|it| module == it)
            && colon.as_char() == ':'
            && FUNCTIONS.iter().any(|it| function == it)
            && group.delimiter() == Delimiter::Parenthesis
            && begins_code
        {
            found.push(group.stream());
        }
    }
    for tree in trees {
        if let TokenTree::Group(group) = tree {
            spawned(group.stream(), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> TokenStream {
        text.parse().expect("tokens")
    }

    #[test]
    fn a_variable_is_told_from_what_has_its_name() {
        for (text, expected) in [
            ("lease", &[false][..]),
            ("lease.key()", &[true]),
            ("lease.0", &[false]),
            ("lease + a", &[false]),
            ("f(lease, lease.key)", &[false, true]),
            ("0..lease.end()", &[true]),
            ("a.lease.key()", &[]),
            ("a::lease.key()", &[]),
            ("a: lease.key()", &[true]),
            ("break 'lease", &[]),
            ("leases.key()", &[]),
        ] {
            let found = mentions(tokens(text), "lease");
            let used: Vec<_> = found.iter().map(|it| it.is_used).collect();
            assert_eq!(used, expected, "{text}");
        }
    }

    #[test]
    fn a_task_begins_where_a_known_function_takes_code() {
        for (text, count) in [
            ("tokio::spawn(async { a })", 1),
            ("tokio::task::spawn_local(async move { a })", 1),
            ("thread::spawn(move || a)", 1),
            ("task::spawn_blocking(|| a)", 1),
            ("{ tokio::spawn(async { tokio::spawn(async { a }) }) }", 2),
            ("tokio::spawn(work)", 0),
            ("tokio::spawn(&work)", 0),
            ("tokio::spawn()", 0),
            ("tokio::spawn[async { a }]", 0),
            ("tokio::select(async { a })", 0),
            ("other::spawn(async { a })", 0),
        ] {
            let mut found = Vec::new();
            spawned(tokens(text), &mut found);
            assert_eq!(found.len(), count, "{text}");
        }
    }
}
