//! Patterns of keys: those of Redis, as regular expressions of PostgreSQL.

/// A pattern, as statements need it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The text with which every matching key begins. An index finds these keys.
    pub(super) prefix: String,
    /// The expression that matches whole keys; `None` if the prefix decides.
    pub(super) expression: Option<String>,
}

impl Pattern {
    /// Reads a pattern in which `*`, `?`, `[a-z]`, `[^a]` and `\` have the meaning of Redis's `SCAN`.
    pub(super) fn of(pattern: Option<&str>) -> Self {
        let mut prefix = String::new();
        let Some(pattern) = pattern else {
            return Self {
                prefix,
                expression: None,
            };
        };
        let mut expression = "^".to_owned();
        let mut is_plain = true;
        let mut rest = pattern.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '*' if rest.peek().is_none() && is_plain => {
                    return Self {
                        prefix,
                        expression: None,
                    };
                }
                '*' => expression.push_str(".*"),
                '?' => expression.push('.'),
                '[' => expression.push_str(&class(&mut rest)),
                _ => {
                    // A backslash at the end stands for itself.
                    let plain = if c == '\\' {
                        rest.next().unwrap_or(c)
                    } else {
                        c
                    };
                    if is_plain {
                        prefix.push(plain);
                    }
                    literal(&mut expression, plain);
                    continue;
                }
            }
            is_plain = false;
        }
        expression.push('$');
        Self {
            prefix,
            expression: Some(expression),
        }
    }
}

/// Adds a character that stands for itself.
fn literal(expression: &mut String, c: char) {
    if c.is_ascii_punctuation() {
        expression.push('\\');
    }
    expression.push(c);
}

/// Returns the rest of a class of characters, after its `[`. Redis ends one that is not closed with the pattern.
fn class(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let is_negated = rest.next_if_eq(&'^').is_some();
    let mut items = String::new();
    while let Some(c) = rest.next() {
        if c == ']' {
            break;
        }
        let first = if c == '\\' {
            rest.next().unwrap_or(c)
        } else {
            c
        };
        let mut ahead = rest.clone();
        let last = (ahead.next() == Some('-')).then(|| ahead.next()).flatten();
        match last.filter(|it| *it != ']') {
            Some(last) => {
                *rest = ahead;
                // Redis accepts the ends of a range in both orders.
                literal(&mut items, first.min(last));
                items.push('-');
                literal(&mut items, first.max(last));
            }
            None => literal(&mut items, first),
        }
    }
    match (items.is_empty(), is_negated) {
        // Neither nothing nor everything can be written as a class.
        (true, false) => "(?!)".to_owned(),
        (true, true) => ".".to_owned(),
        (false, true) => format!("[^{items}]"),
        (false, false) => format!("[{items}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_becomes_an_expression_and_the_text_before_it() {
        for (pattern, prefix, expression) in [
            ("*", "", None),
            ("order:*", "order:", None),
            ("order:42", "order:42", Some(r"^order\:42$")),
            ("a?*", "a", Some("^a..*$")),
            ("*:42", "", Some(r"^.*\:42$")),
            (r"a\*b*", "a*b", None),
            (r"100%_(x)", "100%_(x)", Some(r"^100\%\_\(x\)$")),
            ("a[b-d]e", "a", Some("^a[b-d]e$")),
            ("a[d-b]e", "a", Some("^a[b-d]e$")),
            ("[^ab]*", "", Some("^[^ab].*$")),
            (r"[\]x]", "", Some(r"^[\]x]$")),
            ("[a-]", "", Some(r"^[a\-]$")),
            ("[]", "", Some("^(?!)$")),
            ("[^]", "", Some("^.$")),
            ("[ab", "", Some("^[ab]$")),
            ("[a-cx]", "", Some("^[a-cx]$")),
            (r"[\", "", Some(r"^[\\]$")),
            (r"a\", r"a\", Some(r"^a\\$")),
        ] {
            let found = Pattern::of(Some(pattern));
            assert_eq!(
                (&*found.prefix, found.expression.as_deref()),
                (prefix, expression),
                "{pattern}"
            );
        }
        let all = Pattern::of(None);
        assert_eq!((&*all.prefix, all.expression), ("", None));
    }
}
