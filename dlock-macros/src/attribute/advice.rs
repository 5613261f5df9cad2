//! Tests mistakes that rustc would report without a way out, what is not such a mistake, and what the body owns.

use super::*;

fn expanded(arguments: &str, item: &str) -> String {
    let tokens = |text: &str| text.parse().expect("tokens");
    run(tokens(arguments), tokens(item)).to_string()
}

/// Returns the messages of an expansion, which keeps the function once.
fn messages(arguments: &str, item: &str) -> Vec<String> {
    let expansion = expanded(arguments, item);
    let errors = expansion.split("compile_error ! {").skip(1);
    errors
        .map(|error| error.replace("\\n", "\n").replace("\\\"", "\""))
        .collect()
}

/// Returns the only message, or the empty text.
fn message(arguments: &str, item: &str) -> String {
    let mut messages = messages(arguments, item);
    assert!(messages.len() <= 1, "{messages:?}");
    messages.pop().unwrap_or_default()
}

#[test]
fn a_lease_without_a_name_is_found() {
    for body in [
        "lease.ensure_held()",
        "0..lease.end()",
        "println!(\"{}\", lease.fencing_token()); Ok(())",
        "self.lease.renew(); 0..9; lease.ensure_held()",
        "if true { charge(lease.key()) }; let lease = 1; Ok(lease)",
    ] {
        let item = format!("async fn pay(&self) -> R {{ {body} }}");
        let message = message("key = \"a\"", &item);
        assert!(
            message.contains("`lease`, which has no value"),
            "{body}: {message}"
        );
        assert!(
            message.contains("write `lease = lease`"),
            "{body}: {message}"
        );
        assert_eq!(
            messages("key = \"a\", lease = lease", &item),
            [""; 0],
            "{body}"
        );
        // A name for the rest of the body: rustc reports nothing about it as well.
        let expansion = expanded("key = \"a\"", &item);
        assert!(
            expansion.contains("let lease : & :: dlock"),
            "{body}: {expansion}"
        );
    }
}

#[test]
fn what_may_be_another_lease_is_left_to_rustc() {
    for body in [
        "let lease = locks.acquire().await?; lease.ensure_held()",
        "list.map(|lease| lease.key())",
        "match it { Some(lease) => lease.key(), None => b }",
        "self.lease.ensure_held()",
        "state::lease.ensure_held()",
        "list.map(lease)",
        "charge(lease); lease.key()",
        "async fn inner(lease: &Lease) { lease.key() } inner()",
        "#[distributed_lock(key = \"b\", lease = lease)] async fn inner() { lease.key() } inner()",
        "'lease: loop { break 'lease }",
    ] {
        let item = format!("async fn pay(&self) -> R {{ {body} }}");
        assert_eq!(message("key = \"a\"", &item), "", "{body}");
    }
    let item = "async fn pay(lease: u8) -> R { lease.key() }";
    assert_eq!(message("key = \"a\"", item), "");
}

#[test]
fn a_lease_in_a_task_is_found_where_a_task_is_certain() {
    for (body, refused) in [
        (
            "tokio::spawn(async move { held.ensure_held() }).await",
            true,
        ),
        (
            "if b { tokio::task::spawn(async { charge(held.key()) }) }",
            true,
        ),
        (
            "task::spawn_blocking(move || held.ensure_held()).await",
            true,
        ),
        ("std::thread::spawn(|| held.is_lost()).join()", true),
        ("tokio::spawn(charge(held.fencing_token())).await", false),
        ("scope.spawn(|| held.is_lost())", false),
        ("own::spawn(async { held.is_lost() }).await", false),
        ("tokio::spawn(async move { work() }); held.key()", false),
        (
            "let held = held.keys(); tokio::spawn(async move { held.len() })",
            false,
        ),
    ] {
        let item = format!("async fn pay() -> R {{ {body} }}");
        let message = message("key = \"a\", lease = held", &item);
        let has = message.contains("a spawned task cannot use the lease `held`")
            && message.contains("`let token = held.fencing_token();`");
        assert_eq!(has, refused, "{body}: {message}");
        assert_eq!(message.is_empty(), !refused, "{body}: {message}");
    }
}

#[test]
fn an_option_begins_with_a_parameter() {
    for (option, item, expected) in [
        (
            "manager = state.locks",
            "async fn pay(id: u64) -> R { BODY }",
            "no parameter named `state` in `pay`\nnote: the only parameter is `id`",
        ),
        (
            "enabled = !configs.locks.are_on()",
            "async fn pay(config: C) -> R { BODY }",
            "a parameter with a similar name exists: `config`",
        ),
        (
            "manager = &self.locks",
            "async fn pay() -> R { BODY }",
            "`pay` has no `self` parameter",
        ),
        (
            "manager = state.locks",
            "async fn pay(State(state): State<S>) -> R { BODY }",
            "",
        ),
        (
            "manager = state.locks",
            "fn pay() -> impl Future<Output = R> { let state = S; async move { BODY } }",
            "",
        ),
        (
            "manager = state.locks",
            "fn pay() -> impl Future<Output = R> { let a = S; async move { BODY } }",
            "no parameter named `state`",
        ),
        (
            "manager = crate::state.locks",
            "async fn pay() -> R { BODY }",
            "",
        ),
        (
            "manager = { state.locks }",
            "async fn pay() -> R { BODY }",
            "",
        ),
        ("manager = STATE.locks", "async fn pay() -> R { BODY }", ""),
        (
            "manager = state().locks",
            "async fn pay() -> R { BODY }",
            "",
        ),
        (
            "on_error = shop.convert()",
            "async fn pay() -> R { BODY }",
            "",
        ),
    ] {
        let message = message(&format!("key = \"a\", {option}"), item);
        assert!(message.contains(expected), "{option}: {message}");
        assert_eq!(
            message.is_empty(),
            expected.is_empty(),
            "{option}: {message}"
        );
    }
}

#[test]
fn skip_in_quotes_is_refused_unless_the_value_is_text() {
    for (output, refused) in [
        ("Result<(), E>", true),
        ("crate::Result", true),
        ("Option<u64>", true),
        ("()", true),
        ("&'static str", false),
        ("Text", false),
    ] {
        let item = format!("async fn pay() -> {output} {{ BODY }}");
        for (value, is_quoted) in [("\"skip\"", true), ("a::skip", false), ("\"none\"", false)] {
            let options = format!("key = \"a\", on_busy = {value}, on_error = handle");
            let message = message(&options, &item);
            let has = message.contains("write `on_busy = skip`, without quotes");
            assert_eq!(has, refused && is_quoted, "{output}, {value}: {message}");
        }
    }
}

/// `on_lost = finish` compiles, and gives up a protection.
#[test]
fn the_order_of_attributes_is_named_first_where_it_may_be_the_mistake() {
    let first = |item: &str| {
        let message = message("key = \"a\"", item);
        let order = message.find("above that attribute").expect(item);
        let finish = message.find("on_lost = finish").expect(item);
        order < finish
    };
    assert!(first(
        "fn main() -> R { let body = async { BODY }; runtime().block_on(body) }"
    ));
    assert!(!first("fn import() -> R { BODY }"));
}

#[test]
fn a_body_that_another_attribute_has_rewritten_is_told_apart() {
    let boxed = "-> Pin<Box<dyn Future<Output = R> + Send + 'async_trait>>";
    for (item, first) in [
        (
            format!("fn pay<'async_trait>() {boxed} {{ Box::pin(traced(async move {{ BODY }})) }}"),
            "has rewritten the body\nhelp: put",
        ),
        (
            "fn pay() -> BoxFuture<'static, R> { Box::pin(traced(async move { BODY })) }"
                .to_owned(),
            "does not find the body of the returned future\nhelp: if another attribute",
        ),
        (
            "fn pay() -> BoxFuture<'static, R> { made(BODY) }".to_owned(),
            "does not find the body of the returned future\nhelp: write `async fn`",
        ),
    ] {
        let message = message("key = \"a\"", &item);
        assert!(message.contains(first), "{item}: {message}");
    }
}

#[test]
fn an_argument_that_an_attribute_below_takes_is_not_captured() {
    for (attribute, is_captured) in [
        ("instrument(parent = it)", false),
        ("instrument(skip(it), follows_from = it.causes, err)", false),
        ("instrument(follows_from = it.causes())", true),
        ("instrument(fields(name = it))", true),
        ("instrument(parent = &it)", true),
        ("instrument(skip(it))", true),
    ] {
        let item = format!("#[{attribute}] async fn pay(it: It) -> R {{ BODY }}");
        let expansion = expanded("key = \"a\"", &item);
        let captured = expansion.contains("let _ = & it ;");
        assert_eq!(captured, is_captured, "{attribute}: {expansion}");
        // rustc would report a variable of ours as unused, although the attribute uses the argument.
        assert!(
            !expansion.contains("let it = it"),
            "{attribute}: {expansion}"
        );
    }
    let item = "#[instrument(parent = it)] async fn pay(it: It) -> R { BODY(it) }";
    let expansion = expanded("key = \"a\"", item);
    assert!(expansion.contains("let _ = & it ;"), "{expansion}");
}

/// The drops themselves are tested where they run: in `tests/macro_shapes/f_drops.rs`.
#[test]
fn captures_stand_in_the_order_of_drops() {
    for (item, expected) in [
        (
            "async fn pay(a: A, (b, _): B, _c: C) -> R { BODY(b, a) }",
            "_c b a",
        ),
        (
            "fn pay(a: A, _b: B, c: C) -> BoxFuture<'static, R> { Box::pin(async { BODY(c, a) }) }",
            "c a _b",
        ),
    ] {
        let expansion = expanded("key = \"a\"", item);
        let captures = expansion.split("let _ = & ").skip(1);
        let names: Vec<_> = captures
            .filter_map(|rest| rest.split_once(" ;"))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names.join(" "), expected, "{item}");
    }
}
