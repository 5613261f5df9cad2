//! Tests the expansion as a whole: what it keeps, what it reports, and that no input makes it panic.

use proptest::{prelude::*, sample::select};

use super::*;
use crate::mutants::{edited, edits, mutants};

const ARGUMENTS: &str = r#"key = "order:<self.tenant>/<id>", ttl = "30s", wait = forever,
    renew = true, max_hold = config::HOLD, on_lost = finish, on_error = |error| Err(error),
    lease = lease, manager = self.locks, crate = ::shop::dlock"#;

/// A list of keys.
const SEVERAL: &str = r#"key = ["order:<self.tenant>", "item:<id>"], on_busy = skip,
    enabled = self.has_replicas(id)?, metric = "order""#;

/// Modes of keys.
const MODES: &str = r#"key = ["order:<self.tenant>", shared("item:<id>")], permits = most(id)"#;

const ITEMS: &[&str] = &[
    "/// Pays.
    #[must_use]
    pub(crate) async fn pay<T: Send>(&self, id: u64, _t: T) -> Result<u64, E> where T: Sync {
        #![allow(unused)]
        BODY(id)
    }",
    "fn pay<'a>(&'a self, Path((shop, id)): Path<(u32, u64)>)
        -> Pin<Box<dyn Future<Output = Result<impl Sized, E>> + Send + 'a>>
    { let x = 1; Box::pin(async move { let (a, b) = { let __arg1 = __arg1; __arg1 }; BODY }) }",
    "fn pay(self, id: u64) -> impl Future<Output = Result<(), E>> { async move { BODY } }",
    "unsafe extern \"C\" fn pay<'a>(&'a mut self, id: u64) -> Result<&'a mut u64, E> { BODY }",
    "pub(in crate::a) async unsafe extern \"C\" fn r#pay<'a, T>(&'a self, id: &'a T) -> R { BODY }",
];

fn tokens(text: &str) -> TokenStream {
    text.parse().expect("tokens")
}

fn expanded(arguments: &str, item: &str) -> String {
    run(tokens(arguments), tokens(item)).to_string()
}

fn errors(expansion: &str) -> usize {
    expansion.matches("compile_error").count()
}

/// Ignores white space, which differs between printers.
fn begins(expansion: &str, start: &str) -> bool {
    let tight = |text: String| text.replace(char::is_whitespace, "");
    tight(expansion.to_owned()).starts_with(&tight(tokens(start).to_string()))
}

#[test]
fn the_function_is_kept_and_its_body_written_once() {
    for item in ITEMS {
        let expansion = expanded(ARGUMENTS, item);
        assert_eq!(errors(&expansion), 0, "{expansion}");
        assert_eq!(expansion.matches("BODY").count(), 1, "{expansion}");
        let (signature, _) = item.split_once('{').expect("a body");
        let mut function: syn::ItemFn = syn::parse_str(&expansion).expect("a function");
        let before = function.attrs.len();
        function.attrs.retain(|attr| !is_our_line(attr));
        let added = match item {
            _ if item.starts_with("///") => 2,
            _ if item.starts_with("pub") => 1,
            _ => 0,
        };
        assert_eq!(before - function.attrs.len(), added, "{expansion}");
        assert!(
            begins(&quote!(#function).to_string(), signature),
            "{expansion}"
        );
    }
}

fn is_our_line(attr: &syn::Attribute) -> bool {
    let doc = quote!(#attr).to_string();
    doc.contains("Holds the lock") || doc == "# [doc = \"\"]"
}

/// Each plain function has one mistake, with these words, or none.
#[test]
fn plain_functions_are_refused_what_a_thread_cannot_do() {
    let plain = "fn pay(id: u64) -> Result<u64, E> { BODY }";
    let future = "fn pay(id: u64) -> BoxFuture<'static, R> { made(BODY) }";
    for (options, item, expected) in [
        ("on_lost = finish", plain, ""),
        ("lease = lease", plain, "cannot be stopped"),
        ("on_lost = stop", plain, "cannot be stopped"),
        ("on_lost = perhaps", plain, "must be `stop` or `finish`"),
        ("on_lost = finish, on_cancel = detach", plain, "not allowed"),
        ("on_lost = finish, on_cancel = stop", plain, "not allowed"),
        ("on_lost = finish", future, "does not find the body"),
        (
            "on_lost = finish",
            "const fn pay() -> R { BODY }",
            "`const fn`",
        ),
    ] {
        let expansion = expanded(&format!("key = \"a\", {options}"), item);
        let count = usize::from(!expected.is_empty());
        assert_eq!(errors(&expansion), count, "{options}: {expansion}");
        assert!(expansion.contains(expected), "{options}: {expansion}");
        assert!(!expansion.contains("await"), "{options}: {expansion}");
        assert_eq!(expansion.matches("BODY").count(), 1, "{expansion}");
    }
}

#[test]
fn the_line_about_the_lock_hides_no_missing_documents() {
    let line = "Holds the lock `a` while it runs; `ttl` 30s.";
    let item = "async fn pay() -> R { BODY }";
    for (prefix, expected) in [
        ("/** Pays. */", format!("# [doc = \" {line}\"]")),
        ("#[doc = \"Pays.\"]", format!("# [doc = \"{line}\"]")),
        ("pub", format!("# [cfg_attr (doc , doc = \"{line}\")]")),
        ("", String::new()),
        ("/// Pays.\n #[doc(hidden)]", String::new()),
    ] {
        let expansion = expanded("key = \"a\", ttl = \"30s\"", &format!("{prefix} {item}"));
        assert_eq!(
            expansion.contains(line),
            !expected.is_empty(),
            "{expansion}"
        );
        assert!(expansion.contains(&expected), "{expansion}");
    }
}

#[test]
fn the_boxed_form_stays_recognisable() {
    let expansion = expanded(r#"key = "a""#, ITEMS[1]);
    assert!(expansion.contains("let x = 1 ; Box :: pin (async move {"));
}

#[test]
fn constants_are_static_and_expressions_are_not() {
    let item = "async fn pay(id: u64) -> R { BODY }";
    let fixed = "[\"a\"] , [. ttl (:: core :: time :: Duration :: from_millis (30000u64))] , []";
    assert!(expanded(r#"key = "a", ttl = "30s""#, item).contains(fixed));
    assert!(expanded(r#"key = "a", ttl = TTL"#, item).contains("check_ttl (TTL)"));
    for (ttl, checked) in [
        ("Self::TTL", true),
        ("T::TTL", true),
        ("<T as Ttl>::TTL", true),
        ("ttl(id)", false),
        ("ttl", false),
    ] {
        let expansion = expanded(&format!("key = \"a\", ttl = {ttl}"), item);
        assert!(
            expansion.contains("__site . options () . ttl ("),
            "{expansion}"
        );
        let check = ". ttl (const { :: dlock :: __private :: check_ttl (";
        assert_eq!(expansion.contains(check), checked, "{expansion}");
    }
}

/// Each has this number of mistakes.
#[test]
fn a_mode_is_given_once_and_has_an_effect() {
    let item = "async fn pay(id: u64, most: u32) -> R { BODY }";
    let one = "key = \"a\"";
    let mixed = "key = [\"a\", shared(\"b\")]";
    let all = "key = [shared(\"a\"), shared(\"b\")]";
    for (key, mode, mistakes) in [
        (one, "mode = shared", 0),
        (one, "mode = exclusive", 0),
        (one, "permits = 1", 0),
        (one, "permits = 4294967295", 0),
        (one, "permits = 3u32", 0),
        (one, "permits = most", 0),
        (one, "permits = 0", 1),
        (one, "permits = 0x0", 1),
        (one, "permits = -1", 1),
        (one, "permits = 4294967296", 1),
        (
            one,
            "permits = 99999999999999999999999999999999999999999",
            1,
        ),
        (one, "permits = 3i32", 1),
        (one, "permits = '3'", 1),
        (one, "permits = \"0\"", 1),
        (one, "mode = shared, permits = 3", 1),
        (one, "permits = 3, mode = exclusive", 1),
        (one, "mode = permits, permits = 3", 1),
        (one, "mode = shared, permits = 0", 1),
        (mixed, "mode = exclusive", 0),
        (mixed, "permits = most", 0),
        (mixed, "mode = shared", 1),
        (mixed, "mode = shared, permits = 3", 1),
        (all, "ttl = \"9s\"", 0),
        (all, "mode = shared", 1),
        (all, "mode = exclusive", 1),
        (all, "permits = 3", 1),
        ("key = [shared(\"a\"), 7]", "permits = 3", 1),
        ("key = [shared(\"a\"), \"b\",]", "permits = 3", 0),
        ("key = [shared(\"a\"), shared(\"a\")]", "wait = never", 1),
        ("key = [shared(\"a\",)]", "wait = never", 0),
        ("key = [self::shared(\"a\")]", "wait = never", 1),
        ("key = [shared(\"a\")(\"b\")]", "wait = never", 1),
        ("key = [\"a\", of(id)]", "wait = never", 1),
        ("key = shared(\"a\")", "mode = shared", 1),
    ] {
        let expansion = expanded(&format!("{key}, {mode}"), item);
        assert_eq!(errors(&expansion), mistakes, "{key}, {mode}: {expansion}");
        assert_eq!(expansion.matches("BODY").count(), 1, "{expansion}");
    }
}

#[test]
fn each_key_has_its_mode() {
    let item = "async fn pay(id: u64) -> R { BODY }";
    for (key, own, shared, site) in [
        ("\"a\"", 0, 0, "[\"a\"] , [] , [])"),
        ("[\"a\", \"b\"]", 0, 0, "[\"a\" , \"b\"] , [] , [])"),
        ("[shared(\"a\")]", 0, 1, "[\"a\"] , [] , [] ; [true])"),
        (
            "[\"a\", shared(\"b\"), \"c\"]",
            2,
            1,
            "[\"a\" , \"b\" , \"c\"] , [] , [] ; [false , true , false])",
        ),
    ] {
        let expansion = expanded(&format!("key = {key}"), item);
        assert_eq!(
            expansion.matches(":: own_key (").count(),
            own,
            "{expansion}"
        );
        assert_eq!(
            expansion.matches(":: shared_key (").count(),
            shared,
            "{expansion}"
        );
        assert!(expansion.contains(site), "{expansion}");
    }
}

#[test]
fn a_number_of_permits_is_checked_where_it_is_known() {
    let item = "async fn pay<const MANY: u32>(SOME: u32) -> R { BODY }";
    let check = ":: dlock :: __private :: check_permits (";
    for (permits, calls) in [
        ("3", "[. permits (3u32)] , [])".to_owned()),
        (
            "limits::MOST",
            format!("[. permits ({check}limits :: MOST))] , [])"),
        ),
        (
            "Self::MOST",
            format!("() . permits (const {{ {check}Self :: MOST) }})"),
        ),
        // Generic parameters of the function, and most likely of its type.
        ("MANY", format!("() . permits (const {{ {check}MANY) }})")),
        ("N", format!("() . permits (const {{ {check}N) }})")),
        ("SOME", "() . permits (SOME)".to_owned()),
        ("{ OF_TYPE }", "() . permits (OF_TYPE)".to_owned()),
        ("most(SOME)?", "() . permits (most (SOME) ?)".to_owned()),
    ] {
        let expansion = expanded(&format!("key = \"a\", permits = {permits}"), item);
        let is_computed = expansion.contains("[] , [\"permits\"])");
        assert_eq!(is_computed, calls.starts_with("()"), "{expansion}");
        assert!(expansion.contains(&calls), "{permits}: {expansion}");
    }
}

/// Attributes on an `impl` read those of its methods as `Meta`.
#[test]
fn the_arguments_are_metas() {
    let metas = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
    for (arguments, count) in [(ARGUMENTS, 10), (SEVERAL, 4), (MODES, 2)] {
        let metas = syn::parse::Parser::parse_str(metas, arguments).expect("metas");
        assert_eq!(metas.len(), count);
    }
}

#[test]
fn a_job_that_is_skipped_does_not_wait_unless_it_is_to() {
    let item = "async fn job() -> R { BODY }";
    let never = ". wait (:: dlock :: __private :: Wait :: Never)";
    for (arguments, asks_once) in [
        ("on_busy = skip", true),
        ("on_busy = skip, wait = \"1s\"", false),
        ("on_busy = { skip }", false),
        ("on_busy = busy::skip", false),
        ("", false),
    ] {
        let expansion = expanded(&format!("key = \"a\", {arguments}"), item);
        assert_eq!(expansion.contains(never), asks_once, "{expansion}");
        let by_type = expansion.contains("< R as :: dlock :: __private :: Skip > :: skipped ()");
        assert_eq!(by_type, arguments.contains("= skip"), "{expansion}");
    }
    let expansion = expanded("key = \"a\", on_busy = skip, wait = forever", item);
    assert_eq!(errors(&expansion), 1, "{expansion}");
    let item = "async fn job(skip: R) -> R { BODY }";
    for (busy, refused) in [("skip", 1), ("{ skip }", 0)] {
        let expansion = expanded(&format!("key = \"a\", on_busy = {busy}"), item);
        assert_eq!(errors(&expansion), refused, "{expansion}");
    }
}

#[test]
fn a_call_may_do_without_the_lock_but_not_without_its_lease() {
    for item in ITEMS {
        for more in ["", ", on_cancel = detach", ", on_error = f, on_busy = g()"] {
            let arguments =
                format!("key = [\"a\", \"b\"], enabled = FIRST(id), on_lost = finish{more}");
            let expansion = expanded(&arguments, item);
            if errors(&expansion) > 0 {
                assert!(more.contains("detach"), "borrowed: {expansion}");
                continue;
            }
            assert_eq!(expansion.matches("BODY").count(), 1, "{expansion}");
            assert_eq!(expansion.matches("FIRST").count(), 1, "{expansion}");
            let place = |text| expansion.find(text).expect("it is there");
            assert!(place("FIRST") < place("__site"), "{expansion}");
            assert!(expansion.contains("[\"enabled\"]"), "{expansion}");
        }
        let arguments = "key = \"a\", lease = lease, enabled = true, on_lost = finish";
        let expansion = expanded(arguments, item);
        assert_eq!(errors(&expansion), 1, "{expansion}");
    }
    let without = expanded(ARGUMENTS, ITEMS[0]);
    assert!(!without.contains("Optional") && !without.contains("__enabled"));
}

#[test]
fn what_metrics_show_is_one_plain_word() {
    let item = "async fn settle(id: u64) -> R { BODY }";
    let longest = "x".repeat(64);
    for (metric, taken) in [
        ("\"settle-order\"", true),
        ("r\"Shop_1/orders.settle:v2\"", true),
        (&format!("\"{longest}\""), true),
        (&format!("\"{longest}x\""), false),
        ("\"\"", false),
        ("\"settle order\"", false),
        ("\"order:<id>\"", false),
        ("\"a,b\"", false),
        ("\"é\"", false),
        ("\"a\\n\"", false),
        ("\"a\"x", false),
        ("b\"a\"", false),
        ("NAME", false),
        ("7", false),
        ("concat!(\"a\")", false),
    ] {
        let expansion = expanded(&format!("key = \"a\", metric = {metric}"), item);
        assert_eq!(errors(&expansion), usize::from(!taken), "{expansion}");
    }
    let expansion = expanded("key = \"a\", metric = \"b\"", item);
    assert!(
        expansion.contains("[\"a\"] , [] , [] , \"b\")"),
        "{expansion}"
    );
}

#[test]
fn the_same_input_gives_the_same_output() {
    for item in ITEMS {
        for arguments in [ARGUMENTS, SEVERAL, MODES] {
            assert_eq!(expanded(arguments, item), expanded(arguments, item));
        }
    }
}

#[test]
fn unused_parameters_are_left_to_rustc() {
    let item = "async fn pay(a: A, _b: B, c: C, d: D, Path((e, _)): P) -> R { c.x(e) }";
    let expansion = expanded(r#"key = "<d>""#, item);
    for (name, captured) in [
        ("a", false),
        ("_b", true),
        ("c", true),
        ("d", true),
        ("e", true),
    ] {
        let capture = format!("let _ = & {name} ;");
        assert_eq!(
            expansion.contains(&capture),
            captured,
            "{name}: {expansion}"
        );
        // A variable of its own, which rustc reports as unused.
        let again = expansion.contains(&format!("let {name} = {name} ;"));
        assert_eq!(again, !captured, "{name}: {expansion}");
    }
}

#[test]
fn what_the_body_cannot_own_is_not_captured() {
    let item = "async fn pay(&self, handled: A, ref lent: B, #[expect(unused)] left: C,
        #[allow(unused)] kept: D, mut changed: E, for_the_ttl: F) -> R { BODY }";
    let arguments = r#"key = "a", ttl = ttl(for_the_ttl), on_error = |_| format!("{handled}")"#;
    let expansion = expanded(arguments, item);
    for (name, captured) in [
        ("self", false),
        ("handled", false),
        ("lent", false),
        ("left", false),
        ("kept", true),
        ("changed", true),
        ("for_the_ttl", true),
    ] {
        let capture = expansion.contains(&format!("let _ = & {name} ;"));
        assert_eq!(capture, captured, "{name}: {expansion}");
        let again = expansion.contains(&format!("let {name} = {name} ;"));
        assert!(!again, "{name}: {expansion}");
    }
    // A plain function drops the parameters that its block does not name when it is called.
    let item = "fn pay(self, a: A) -> impl Future<Output = R> { async move { BODY } }";
    let expansion = expanded(r#"key = "a""#, item);
    assert!(!expansion.contains("let _ = & self"), "{expansion}");
    assert!(!expansion.contains("let a = a"), "{expansion}");
}

#[test]
fn mistakes_keep_the_function_unguarded() {
    for item in ITEMS {
        let expansion = expanded("key = 7, on_lost = finish", item);
        assert_eq!(errors(&expansion), 1, "{expansion}");
        assert!(begins(&expansion, item), "{expansion}");
    }
}

#[test]
fn foreign_attributes_of_the_same_name_are_no_second_lock() {
    let item = "#[other::distributed_lock] async fn pay() -> R { BODY }";
    assert_eq!(errors(&expanded(r#"key = "a""#, item)), 0);
    for ours in [
        "distributed_lock(key = \"b\")",
        "dlock::distributed_lock(key = \"b\")",
    ] {
        let item = format!("#[{ours}] #[inline] async fn pay() -> R {{ BODY }}");
        let expansion = expanded(r#"key = "a""#, &item);
        assert_eq!(errors(&expansion), 1, "{expansion}");
        assert!(begins(&expansion, "#[inline] async fn"), "{expansion}");
    }
}

#[test]
fn half_written_bodies_still_expand() {
    for body in ["self.", "let x = ;", "match", "foo(", "a b c"] {
        let Ok(body) = body.parse::<TokenStream>() else {
            continue;
        };
        let item = quote!(async fn pay(&self) -> R { #body });
        let expansion = run(tokens(r#"key = "a""#), item).to_string();
        assert_eq!(errors(&expansion), 0, "{expansion}");
    }
}

#[test]
fn no_mutation_panics() {
    for arguments in [ARGUMENTS, SEVERAL].map(tokens) {
        for item in ITEMS {
            let item = tokens(item);
            for mutant in mutants(&arguments) {
                let expansion = run(mutant, item.clone()).to_string();
                assert_eq!(expansion.matches("BODY").count(), 1, "{expansion}");
            }
            for mutant in mutants(&item) {
                run(arguments.clone(), mutant);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_arguments_panic(
        item in select(ITEMS),
        arguments in select(&[ARGUMENTS, SEVERAL][..]),
        edits in edits(),
    ) {
        let arguments = edited(tokens(arguments), &edits);
        let expansion = run(arguments, tokens(item)).to_string();
        prop_assert_eq!(expansion.matches("BODY").count(), 1, "{}", expansion);
    }

    #[test]
    fn no_item_panics(item in select(ITEMS), edits in edits(), arguments in edits_of_arguments()) {
        let item = edited(tokens(item), &edits);
        let bodies = item.to_string().matches("BODY").count();
        let expansion = run(arguments, item).to_string();
        // Types are written several times, so the count may be higher.
        prop_assert!(expansion.matches("BODY").count() >= bodies, "{}", expansion);
    }
}

/// Correct arguments, or edited ones.
fn edits_of_arguments() -> impl Strategy<Value = TokenStream> {
    prop_oneof![
        Just(tokens(ARGUMENTS)),
        Just(tokens(r#"key = "order:<id>""#)),
        edits().prop_map(|edits| edited(tokens(ARGUMENTS), &edits)),
    ]
}
