//! The operators that make mistakes of a Lua script or of SQL, line by line.

use std::ops::Range;
use std::path::Path;

use regex_lite::Regex;

use super::Draft;
use crate::switch::Form;

/// A language: how its conditions, statements and comments look.
struct Language {
    comment: &'static str,
    /// The first group is a condition.
    conditions: &'static [&'static str],
    /// A whole line that is a statement.
    statement: &'static str,
    /// The first line of a function; its name is the first group.
    function: &'static str,
    exchanged: &'static [(&'static str, &'static str)],
    /// What remains of a statement that is left out.
    nothing: &'static str,
}

const LUA: Language = Language {
    comment: "--",
    conditions: &[
        r"^\s*(?:else)?if (.+) then$",
        r"^\s*while (.+) do$",
        r"^\s*return (.+) and .+$",
    ],
    statement: r"^\s*((?:redis\.call|table\.insert)\(.*\)|[\w.\[\]]+(?:, [\w.\[\]]+)* = .*[^,({\s])$",
    function: r"^(?:local )?function (\w+)",
    exchanged: &[
        (r" == ", " ~= "),
        (r" ~= ", " == "),
        (r" < ", " <= "),
        (r" <= ", " < "),
        (r" > ", " >= "),
        (r" >= ", " > "),
        (r" and ", " or "),
        (r" or ", " and "),
        (r" \+ ", " - "),
        (r" - ", " + "),
    ],
    nothing: "",
};

const SQL: Language = Language {
    comment: "--",
    conditions: &[
        r"^\s*(?:ELS)?IF (.+) THEN$",
        r"^\s*WHERE (.+?);?$",
        r"^\s*AND (.+?);?$",
        r"WHEN (.+) THEN",
    ],
    statement: r"^\s*((?:PERFORM|INSERT|UPDATE|DELETE|NOTIFY) .+;|_\w+ := .+;)$",
    function: r"^CREATE (?:OR REPLACE )?FUNCTION \{schema\}\.(\w+)",
    exchanged: &[
        (r" = ", " <> "),
        (r" <> ", " = "),
        (r" < ", " <= "),
        (r" <= ", " < "),
        (r" > ", " >= "),
        (r" >= ", " > "),
        (r" AND ", " OR "),
        (r" OR ", " AND "),
        (r" \+ ", " - "),
        (r" - ", " + "),
        // A column is called `least`.
        (r"greatest\(", "least("),
        (r"least\(", "greatest("),
        (r"IS NULL", "IS NOT NULL"),
        (r"IS NOT NULL", "IS NULL"),
    ],
    nothing: "NULL;",
};

/// All mistakes that the operators make of this text.
pub(super) fn drafts(file: &str, text: &str) -> Result<Vec<Draft>, String> {
    let is_lua = Path::new(file).extension().is_some_and(|it| it == "lua");
    let language = if is_lua { &LUA } else { &SQL };
    let regex = |pattern: &str| Regex::new(pattern).map_err(|error| error.to_string());
    let conditions: Result<Vec<_>, _> = language.conditions.iter().map(|it| regex(it)).collect();
    let conditions = conditions?;
    let exchanged = language.exchanged.iter();
    let exchanged: Result<Vec<_>, _> = exchanged
        .map(|(right, wrong)| Ok::<_, String>((regex(right)?, *wrong)))
        .collect();
    let exchanged = exchanged?;
    let (statement, function) = (regex(language.statement)?, regex(language.function)?);
    let (mut drafts, mut start, mut name) = (Vec::new(), 0, String::new());
    for whole in text.split_inclusive('\n') {
        let line = whole.trim_end_matches('\n');
        let code = line.trim_start();
        if let Some(found) = function.captures(line) {
            found[1].clone_into(&mut name);
        }
        let mut draft = |at: Range<usize>, wrong: &str| {
            drafts.push(Draft {
                function: name.clone(),
                at: start + at.start..start + at.end,
                wrong: wrong.to_owned(),
                form: Form::Statements,
            });
        };
        if !code.is_empty() && !code.starts_with(language.comment) {
            for found in conditions.iter().filter_map(|it| it.captures(line)) {
                let condition = found.get(1).expect("the group is in the pattern").range();
                draft(condition.clone(), "true");
                draft(condition, "false");
            }
            if let Some(found) = statement.captures(line) {
                let all = found.get(1).expect("the group is in the pattern").range();
                draft(all, language.nothing);
            }
            for (right, wrong) in &exchanged {
                for found in right.find_iter(line) {
                    draft(found.range(), wrong);
                }
            }
        }
        start += whole.len();
    }
    Ok(drafts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(file: &str, text: &str) -> Vec<String> {
        let drafts = drafts(file, text).unwrap_or_else(|error| panic!("{error}"));
        let shown = drafts.into_iter().map(|it| {
            let right = &text[it.at.clone()];
            format!("{}: {right} => {}", it.function, it.wrong)
        });
        shown.collect()
    }

    #[test]
    fn each_line_of_lua_is_read() {
        assert_eq!(
            wrong("a.lua", "local function f(a)\n  if a == b then\n"),
            ["f: a == b => true", "f: a == b => false", "f:  ==  =>  ~= "]
        );
        assert_eq!(
            wrong("a.lua", "  redis.call('DEL', a)\n"),
            [": redis.call('DEL', a) => "]
        );
        assert_eq!(wrong("a.lua", "  a = b\n"), [": a = b => "]);
        assert_eq!(wrong("a.lua", "-- if a < b then\nlocal a = b\n"), [""; 0]);
    }

    #[test]
    fn each_line_of_sql_is_read() {
        let text = "CREATE FUNCTION {schema}.f() RETURNS void\n    AND a < b\n    PERFORM g();\n";
        assert_eq!(
            wrong("a.sql", text),
            [
                "f: a < b => true",
                "f: a < b => false",
                "f:  <  =>  <= ",
                "f:  AND  =>  OR ",
                "f: PERFORM g(); => NULL;"
            ]
        );
    }
}
