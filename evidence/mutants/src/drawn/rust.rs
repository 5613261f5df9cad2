//! The operators that make mistakes of a Rust source: the usual ones of mutation testing.
//!
//! They know no types. What does not compile is taken out by the compiler.

use std::ops::Range;

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprBinary, ExprCall, ExprIf, ExprLit, ExprMatch,
    ExprMethodCall, ExprUnary, ExprWhile, Ident, ImplItemFn, Item, ItemFn, ItemImpl, ItemMod, Lit,
    Pat, ReturnType, Signature, Stmt, Token, TraitItemFn, Type, UnOp,
};

use super::Draft;
use crate::switch::Form;

/// Methods that are mistaken for each other.
const METHODS: [(&str, &str); 16] = [
    ("is_some", "is_none"),
    ("is_ok", "is_err"),
    ("is_some_and", "is_none_or"),
    ("min", "max"),
    ("earlier", "later"),
    ("any", "all"),
    ("first", "last"),
    ("and", "or"),
    ("saturating_add", "saturating_sub"),
    ("checked_add", "checked_sub"),
    ("push_back", "push_front"),
    ("pop_back", "pop_front"),
    ("starts_with", "ends_with"),
    ("take_while", "skip_while"),
    ("max_by_key", "min_by_key"),
    ("is_lt", "is_gt"),
];

/// Macros whose absence is no mistake.
const CHECKS: [&str; 6] = [
    "assert",
    "assert_eq",
    "debug_assert",
    "debug_assert_eq",
    "unreachable",
    "panic",
];

/// All mistakes that the operators make of this source.
pub(super) fn drafts(text: &str) -> Result<Vec<Draft>, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut operators = Operators {
        text,
        within: Vec::new(),
        drafts: Vec::new(),
    };
    operators.visit_file(&file);
    Ok(operators.drafts)
}

struct Operators<'a> {
    text: &'a str,
    /// The names of the functions around the place.
    within: Vec<String>,
    drafts: Vec<Draft>,
}

impl Operators<'_> {
    fn text_of(&self, at: &impl Spanned) -> &str {
        &self.text[at.span().byte_range()]
    }

    fn draft(&mut self, at: Range<usize>, wrong: String, form: Form) {
        // A constant is made when there is no switch yet.
        if self.within.is_empty() || self.text.get(at.clone()).is_none_or(|it| it == wrong) {
            return;
        }
        self.drafts.push(Draft {
            function: self.within.join("::"),
            at,
            wrong,
            form,
        });
    }

    fn expression(&mut self, at: &impl Spanned, wrong: impl Into<String>) {
        self.draft(at.span().byte_range(), wrong.into(), Form::Expression);
    }

    /// What follows, at the begin of this place, if the mistake is made.
    fn insertion(&mut self, at: usize, begin: &str, end: &str) {
        // Its name is known when it is drawn.
        let wrong = format!("{begin}\0{end}");
        self.draft(at..at, wrong, Form::Insertion);
    }

    fn left_out(&mut self, first: Span, last: Span) {
        let at = first.byte_range().start..last.byte_range().end;
        self.draft(at, String::new(), Form::Statements);
    }

    /// A condition is always true, or never; of a chain with a pattern, each part that has none.
    fn condition(&mut self, condition: &Expr, may_be_true: bool) {
        match condition {
            Expr::Let(_) => {}
            Expr::Binary(ExprBinary {
                left,
                op: BinOp::And(_),
                right,
                ..
            }) if has_pattern(condition) => {
                self.condition(left, true);
                self.condition(right, true);
            }
            _ => {
                self.expression(condition, "false");
                if may_be_true {
                    self.expression(condition, "true");
                }
            }
        }
    }

    /// Two arguments side by side are exchanged.
    fn exchange(&mut self, call: &impl Spanned, arguments: &Punctuated<Expr, Token![,]>) {
        let whole = call.span().byte_range();
        let places: Vec<_> = arguments.iter().map(|it| it.span().byte_range()).collect();
        for pair in places.windows(2) {
            let [one, other] = [&pair[0], &pair[1]];
            let parts = [
                whole.start..one.start,
                other.clone(),
                one.end..other.start,
                one.clone(),
                other.end..whole.end,
            ];
            let wrong: Vec<_> = parts.into_iter().map(|it| &self.text[it]).collect();
            let wrong = wrong.concat();
            self.expression(call, wrong);
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block, attributes: &[Attribute]) {
        if is_for_tests(attributes) || signature.constness.is_some() {
            return;
        }
        self.within.push(signature.ident.to_string());
        // With a statement at least, it is no place where nothing is to be done.
        if !block.stmts.is_empty() {
            let begin = block.brace_token.span.open().byte_range().end;
            for value in values(&signature.output) {
                let only = self.text_of(block).trim_matches(['{', '}']).trim();
                if only != value {
                    self.insertion(begin, "if ", &format!(" {{ return {value}; }}"));
                }
            }
        }
        visit::visit_block(self, block);
        self.within.pop();
    }
}

/// Values that a function of this type could return instead.
fn values(output: &ReturnType) -> Vec<&'static str> {
    let ReturnType::Type(_, output) = output else {
        return vec![""];
    };
    let Type::Path(path) = &**output else {
        return Vec::new();
    };
    let Some(last) = path.path.segments.last() else {
        return Vec::new();
    };
    match &*last.ident.to_string() {
        "bool" => vec!["true", "false"],
        "usize" | "u8" | "u16" | "u32" | "u64" | "i64" => vec!["0", "1"],
        "Option" => vec!["None"],
        "Duration" => vec!["std::time::Duration::ZERO"],
        "Result" => vec!["Ok(Default::default())"],
        "String" | "Vec" | "VecDeque" | "BTreeMap" | "HashMap" => vec!["Default::default()"],
        _ => Vec::new(),
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        let path = it.path();
        let is_test = path.segments.last().is_some_and(|it| it.ident == "test");
        let is_left_out = path.is_ident("cfg")
            && it.meta.require_list().is_ok_and(|list| {
                let tokens = list.tokens.to_string();
                ["test", "fuzzing", "not"]
                    .iter()
                    .any(|word| tokens.starts_with(word))
            });
        is_test || is_left_out
    })
}

/// Whether a part of the expression is a `let` of a condition.
fn has_pattern(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_pattern(&binary.left) || has_pattern(&binary.right),
        _ => false,
    }
}

/// The operators for which this one is mistaken.
fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Lt(_) => &["<=", ">"],
        BinOp::Le(_) => &["<", ">="],
        BinOp::Gt(_) => &[">=", "<"],
        BinOp::Ge(_) => &[">", "<="],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["/"],
        BinOp::Div(_) => &["*"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        _ => &[],
    }
}

/// Whether an arm takes all that is left.
fn takes_the_rest(arm: &Arm) -> bool {
    // A name in capitals is that of a value.
    let is_new = |name: &Ident| name.to_string().starts_with(char::is_lowercase);
    match &arm.pat {
        Pat::Wild(_) => true,
        Pat::Ident(it) => it.subpat.is_none() && is_new(&it.ident),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Operators<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !matches!(item, Item::Const(_) | Item::Static(_) | Item::Macro(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let of = item
            .trait_
            .as_ref()
            .and_then(|(path, _)| path.segments.last());
        let is_debug = of.is_some_and(|it| it.ident == "Debug");
        if !is_debug && !is_for_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block, &item.attrs);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, &item.block, &item.attrs);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block, &item.attrs);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        match statement {
            Stmt::Expr(expression, Some(end)) => {
                let may_be_left_out = matches!(
                    expression,
                    Expr::Assign(_)
                        | Expr::Await(_)
                        | Expr::Binary(_)
                        | Expr::Call(_)
                        | Expr::MethodCall(_)
                        | Expr::Return(_)
                        | Expr::Try(_)
                );
                if may_be_left_out {
                    self.left_out(expression.span(), end.span());
                }
                if let Expr::Try(tried) = expression {
                    let at = expression.span().byte_range().start..end.span().byte_range().end;
                    let wrong = format!("drop({});", self.text_of(&tried.expr));
                    self.draft(at, wrong, Form::Statements);
                }
            }
            Stmt::Macro(statement) => {
                let name = statement.mac.path.segments.last();
                let name = name.map(|it| it.ident.to_string()).unwrap_or_default();
                if let Some(end) = &statement.semi_token
                    && !CHECKS.contains(&&*name)
                {
                    self.left_out(statement.mac.span(), end.span());
                }
            }
            _ => {}
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_pat(&mut self, pattern: &'ast Pat) {
        // No switch can be in one, but for a guard.
        if !matches!(pattern, Pat::Lit(_) | Pat::Range(_) | Pat::Const(_)) {
            visit::visit_pat(self, pattern);
        }
    }

    fn visit_expr_if(&mut self, expression: &'ast ExprIf) {
        self.condition(&expression.cond, true);
        visit::visit_expr_if(self, expression);
    }

    fn visit_expr_while(&mut self, expression: &'ast ExprWhile) {
        self.condition(&expression.cond, false);
        visit::visit_expr_while(self, expression);
    }

    fn visit_expr_match(&mut self, expression: &'ast ExprMatch) {
        for (index, arm) in expression.arms.iter().enumerate() {
            if let Pat::Guard(guarded) = &arm.pat {
                self.condition(&guarded.guard, true);
            } else if expression.arms[index + 1..].iter().any(takes_the_rest) {
                let at = arm.fat_arrow_token.span().byte_range().start;
                self.insertion(at, " if !", " ");
            }
        }
        visit::visit_expr_match(self, expression);
    }

    fn visit_expr_binary(&mut self, expression: &'ast ExprBinary) {
        if !has_pattern(&expression.left) && !has_pattern(&expression.right) {
            for other in others(&expression.op) {
                let (left, right) = (
                    self.text_of(&expression.left).to_owned(),
                    self.text_of(&expression.right).to_owned(),
                );
                self.expression(expression, format!("{left} {other} {right}"));
            }
            if matches!(expression.op, BinOp::And(_) | BinOp::Or(_)) {
                for part in [&expression.left, &expression.right] {
                    let part = self.text_of(&**part).to_owned();
                    self.expression(expression, part);
                }
            }
        }
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'ast ExprUnary) {
        if matches!(expression.op, UnOp::Not(_)) {
            let wrong = self.text_of(&expression.expr).to_owned();
            self.expression(expression, wrong);
        }
        visit::visit_expr_unary(self, expression);
    }

    fn visit_expr_lit(&mut self, expression: &'ast ExprLit) {
        match &expression.lit {
            Lit::Int(literal) => {
                if let Ok(value) = literal.base10_parse::<u64>() {
                    let (more, kind) = (value.saturating_add(1), literal.suffix());
                    self.expression(expression, format!("{more}{kind}"));
                }
            }
            Lit::Bool(literal) => {
                self.expression(expression, (!literal.value).to_string());
            }
            _ => {}
        }
    }

    fn visit_expr_call(&mut self, expression: &'ast ExprCall) {
        self.exchange(expression, &expression.args);
        visit::visit_expr_call(self, expression);
    }

    fn visit_expr_method_call(&mut self, expression: &'ast ExprMethodCall) {
        self.exchange(expression, &expression.args);
        let name = expression.method.to_string();
        let both = METHODS
            .iter()
            .flat_map(|&(one, other)| [(one, other), (other, one)]);
        if let Some((_, other)) = both.into_iter().find(|(one, _)| *one == name) {
            let (whole, method) = (
                expression.span().byte_range(),
                expression.method.span().byte_range(),
            );
            let before = &self.text[whole.start..method.start];
            let wrong = format!("{before}{other}{}", &self.text[method.end..whole.end]);
            self.expression(expression, wrong);
        }
        visit::visit_expr_method_call(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wrong texts that are made of the body of a function.
    fn wrong(body: &str) -> Vec<String> {
        let text = format!("fn f() -> X {{ {body} }}");
        let drafts = drafts(&text).unwrap_or_else(|error| panic!("{error}"));
        let shown = drafts.into_iter().map(|draft| {
            assert_eq!(draft.function, "f");
            let right = &text[draft.at.clone()];
            format!("{right} => {}", draft.wrong.replace('\0', "M"))
        });
        shown.collect()
    }

    #[test]
    fn each_operator_makes_its_mistakes() {
        assert_eq!(wrong("if a { b }"), ["a => false", "a => true"]);
        assert_eq!(
            wrong("if a && let Some(b) = c { d }"),
            ["a => false", "a => true"]
        );
        assert_eq!(wrong("while a { b }"), ["a => false"]);
        assert_eq!(wrong("a < b"), ["a < b => a <= b", "a < b => a > b"]);
        assert_eq!(
            wrong("a && b"),
            ["a && b => a || b", "a && b => a", "a && b => b"]
        );
        assert_eq!(wrong("a += b;"), ["a += b; => ", "a += b => a -= b"]);
        assert_eq!(wrong("!a"), ["!a => a"]);
        assert_eq!(wrong("1_u8"), ["1_u8 => 2u8"]);
        assert_eq!(wrong("true"), ["true => false"]);
        assert_eq!(wrong("f(a, b)"), ["f(a, b) => f(b, a)"]);
        assert_eq!(wrong("a.min(b)"), ["a.min(b) => a.max(b)"]);
        assert_eq!(
            wrong("a.b(c, d, e)"),
            [
                "a.b(c, d, e) => a.b(d, c, e)",
                "a.b(c, d, e) => a.b(c, e, d)"
            ]
        );
        assert_eq!(wrong("f(); g"), ["f(); => "]);
        assert_eq!(wrong("f()?; g"), ["f()?; => ", "f()?; => drop(f());"]);
        assert_eq!(wrong("warn!(a); assert!(b); g"), ["warn!(a); => "]);
        assert_eq!(
            wrong("match a { B if c => d, E => f, _ => g }"),
            ["c => false", "c => true", " =>  if !M "]
        );
        assert_eq!(wrong("match a { B => c, None => d }"), [""; 0]);
        assert_eq!(wrong("match a { 4 | 5 => c, 6.. => d }"), [""; 0]);
        assert_eq!(wrong("let a = 1; const B: u8 = 2; a"), ["1 => 2"]);
    }

    #[test]
    fn a_function_returns_something_at_once() {
        let made = |text| {
            let drafts = drafts(text).unwrap_or_else(|error| panic!("{error}"));
            let wrong = drafts.into_iter().map(|it| it.wrong.replace('\0', "M"));
            wrong.collect::<Vec<_>>()
        };
        assert_eq!(
            made("fn f() -> bool { a }"),
            ["if M { return true; }", "if M { return false; }"]
        );
        assert_eq!(made("fn f() -> Option<u8> { None }"), [""; 0]);
        assert_eq!(made("fn f() { g }"), ["if M { return ; }"]);
        assert_eq!(made("const fn f() -> bool { a }"), [""; 0]);
        assert_eq!(made("#[cfg(test)] mod t { fn f() -> bool { a } }"), [""; 0]);
        assert_eq!(made("#[test] fn f() { a(); }"), [""; 0]);
        assert_eq!(made("const A: u8 = 1;"), [""; 0]);
    }
}
