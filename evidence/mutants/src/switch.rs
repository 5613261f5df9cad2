//! Puts mistakes into a text, each behind a switch that is read when the program runs.

use std::cmp::Reverse;
use std::ops::Range;
use std::path::Path;

use super::mutant::{Mutant, Place};

/// The variable that says which mistake is made.
pub(super) const VARIABLE: &str = "DLOCK_MISTAKE";

/// The variable that names the file to which a program writes the places that it comes to.
pub(super) const REACHED: &str = "DLOCK_MISTAKES_REACHED";

/// A mistake at its place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seed {
    pub(super) name: String,
    /// What is replaced.
    pub(super) at: Range<usize>,
    pub(super) wrong: String,
    pub(super) form: Form,
    /// A part of the text around it that is there once; of a script alone.
    pub(super) whole: Range<usize>,
}

/// What the right and the wrong text are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Statements,
    Expression,
    /// The wrong text has a switch of its own, and is put before the place.
    Insertion,
}

impl Seed {
    /// The places of a mistake of the list.
    pub(super) fn listed(mutant: &Mutant, text: &str) -> Result<Vec<Self>, String> {
        let places = mutant.find_in(text)?.into_iter();
        let seed = |place: Place| {
            let is_statement = place.wrong.is_empty() || place.wrong.ends_with(';');
            let form = if is_statement || is_block(&text[place.marked.clone()]) {
                Form::Statements
            } else {
                Form::Expression
            };
            Self {
                name: mutant.name.to_owned(),
                at: place.marked,
                wrong: place.wrong.to_owned(),
                form,
                whole: place.whole,
            }
        };
        Ok(places.map(seed).collect())
    }
}

/// The Rust source `text` with all of `seeds` in it.
///
/// The places of two may be the same, or one may lie in the other; an error if they overlap otherwise.
pub(super) fn switched(text: &str, seeds: &[Seed]) -> Result<String, String> {
    let mut seeds: Vec<_> = seeds.iter().collect();
    seeds.sort_by_key(|seed| (seed.at.start, Reverse(seed.at.end)));
    within(text, 0..text.len(), &seeds)
}

/// The part of `text` with `seeds`, which lie in it, the outer before the inner ones.
fn within(text: &str, part: Range<usize>, seeds: &[&Seed]) -> Result<String, String> {
    let mut made = String::new();
    let mut done = part.start;
    let mut rest = seeds;
    while let Some((outer, others)) = rest.split_first() {
        let inside = others
            .iter()
            .take_while(|it| it.at.start < outer.at.end || it.at == outer.at);
        let (inner, behind) = others.split_at(inside.count());
        if let Some(across) = inner.iter().find(|it| it.at.end > outer.at.end) {
            return Err(format!(
                "the places of `{}` and `{}` overlap",
                outer.name, across.name
            ));
        }
        made += &text[done..outer.at.start];
        let right = within(text, outer.at.clone(), inner)?;
        made += &either(outer, &right);
        done = outer.at.end;
        rest = behind;
    }
    Ok(made + &text[done..part.end])
}

/// The mistake if it is switched on, else `right`, which is the original with other mistakes in it. Its begin and end are
/// marked: an error of the compiler between them is an error of this mistake.
fn either(seed: &Seed, right: &str) -> String {
    let Seed { name, wrong, .. } = seed;
    let choice = || format!("if crate::mistakes::is_on({name:?}) {{ {wrong} }} else {{ {right} }}");
    let made = match seed.form {
        Form::Statements => choice(),
        // As a part of an expression it would end there else.
        Form::Expression => format!("({})", choice()),
        Form::Insertion => format!("{wrong}{right}"),
    };
    let [begin, end] = marks(name);
    format!("{begin}{made}{end}")
}

/// The comments around a mistake.
pub(super) fn marks(name: &str) -> [String; 2] {
    [format!("/*<{name}*/"), format!("/*{name}>*/")]
}

fn is_block(text: &str) -> bool {
    let text = text.trim_end();
    text.is_empty() || text.ends_with([';', '}'])
}

/// The scripts that are made of the texts of several files.
pub(super) const PARTS: [(&str, &[&str]); 3] = [
    ("acquire", &["acquire", "sharing", "join"]),
    ("release", &["release", "sharing", "leave"]),
    ("unlock", &["unlock", "release", "sharing", "leave"]),
];

/// The module `mistakes` of a package, with the mistakes in its scripts: a seed, its file, and the text of that.
pub(super) fn module<'a>(scripts: impl Iterator<Item = (&'a Seed, &'a str, &'a str)>) -> String {
    let mut replaced = Vec::new();
    for (seed, file, text) in scripts {
        let Seed {
            name, at, whole, ..
        } = seed;
        let (before, behind) = (&text[whole.start..at.start], &text[at.end..whole.end]);
        let wrong = format!("{before}{}{behind}", seed.wrong);
        let (stem, right) = (script(file), &text[whole.clone()]);
        replaced.push(format!("    ({name:?}, {stem:?}, {right:?}, {wrong:?}),"));
    }
    let replaced = replaced.join("\n");
    let parts = PARTS.map(|(script, parts)| format!("    ({script:?}, &{parts:?}),"));
    let parts = parts.join("\n");
    format!(
        "\
use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::{{Mutex, OnceLock}};

const IN_SCRIPTS: &[(&str, &str, &str, &str)] = &[
{replaced}
];

const PARTS: &[(&str, &[&str])] = &[
{parts}
];

pub(crate) fn is_on(name: &'static str) -> bool {{
    static ON: OnceLock<(String, Option<String>)> = OnceLock::new();
    let (on, noted) = ON.get_or_init(|| {{
        let on = std::env::var({VARIABLE:?}).unwrap_or_default();
        (on, std::env::var({REACHED:?}).ok())
    }});
    if let Some(file) = noted {{
        note(name, file);
    }}
    on == name
}}

/// Each place once, and at once: the process may be killed. In a forked child the lock may stay taken for ever.
fn note(name: &'static str, file: &str) {{
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    for _ in 0..100 {{
        let Ok(mut known) = KNOWN.try_lock() else {{
            std::thread::yield_now();
            continue;
        }};
        if known.insert(name) {{
            let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
            if let Ok(mut file) = file {{
                let _ = file.write_all(format!(\"{{name}}\\n\").as_bytes());
            }}
        }}
        return;
    }}
}}

#[allow(dead_code)]
pub(crate) fn in_script(script: &str, text: &'static str) -> &'static str {{
    let mistake = IN_SCRIPTS.iter().find(|(name, file, right, _)| {{
        let is_in = *file == script || PARTS.iter().any(|(whole, parts)| {{
            *whole == script && parts.contains(file)
        }});
        is_in && is_on(name) && text.contains(right)
    }});
    match mistake {{
        Some((_, _, right, wrong)) => text.replacen(right, wrong, 1).leak(),
        None => text,
    }}
}}
"
    )
}

/// Whether it is a text that a server runs.
pub(super) fn is_script(file: &str) -> bool {
    let extension = Path::new(file).extension();
    extension.is_some_and(|it| it == "lua" || it == "sql")
}

/// The name of a script by its file.
fn script(file: &str) -> &str {
    let (_, name) = file.rsplit_once('/').unwrap_or(("", file));
    name.trim_end_matches(".lua").trim_end_matches(".sql")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mutant(name: &'static str, place: &'static str, wrong: &'static str) -> Mutant {
        Mutant::new(name, "It is wrong", "p/src/f.rs", place, wrong, &[])
    }

    /// The text with these mistakes, without the marks around them.
    fn both(text: &str, mutants: &[Mutant]) -> Result<String, String> {
        let mut seeds = Vec::new();
        for mutant in mutants {
            seeds.extend(Seed::listed(mutant, text)?);
        }
        let mut made = switched(text, &seeds)?;
        for mark in mutants.iter().flat_map(|it| marks(it.name)) {
            assert_eq!(made.matches(&mark).count(), 1, "{made}");
            made = made.replace(&mark, "");
        }
        Ok(made)
    }

    #[test]
    fn an_expression_stays_one_and_statements_become_a_choice() {
        let made = both("let a = b + c;", &[mutant("m", "b +", "0 -")]);
        let choice = "let a = (if crate::mistakes::is_on(\"m\") { 0 - } else { b + }) c;";
        assert_eq!(made.as_deref(), Ok(choice));
        let made = both("f(); g();", &[mutant("m", "f();", "")]);
        let choice = "if crate::mistakes::is_on(\"m\") {  } else { f(); } g();";
        assert_eq!(made.as_deref(), Ok(choice));
        let made = both("f();", &[mutant("m", "f();«»", "g();")]);
        let choice = "f();if crate::mistakes::is_on(\"m\") { g(); } else {  }";
        assert_eq!(made.as_deref(), Ok(choice));
    }

    #[test]
    fn mistakes_lie_side_by_side_in_each_other_and_at_one_place() {
        let inner = mutant("i", "f(«x»)", "y");
        let outer = mutant("o", "f(x);", "");
        let same = mutant("s", "f(x);", "h();");
        let other = mutant("b", "g", "k");
        let made = both("f(x); g", &[inner, outer, other, same]).expect("none overlaps");
        let on = |name| format!("if crate::mistakes::is_on({name:?})");
        let x = format!("f(({} {{ y }} else {{ x }}));", on("i"));
        let s = format!("{} {{ h(); }} else {{ {x} }}", on("s"));
        let o = format!("{} {{  }} else {{ {s} }}", on("o"));
        assert_eq!(made, format!("{o} ({} {{ k }} else {{ g }})", on("b")));
    }

    #[test]
    fn places_that_overlap_are_refused() {
        let error = both("a b c", &[mutant("m", "a b", ""), mutant("n", "b c", "")]);
        assert_eq!(error, Err("the places of `m` and `n` overlap".to_owned()));
    }

    #[test]
    fn a_script_is_chosen_with_its_mistake() {
        let file = "p/src/x/renew.lua";
        let mistake = Mutant::new("m", "It is wrong", file, "a «b»\nc", "d", &[]);
        let script = "x a b\nc";
        let seeds = Seed::listed(&mistake, script).expect("its place is there");
        let text = module(seeds.iter().map(|seed| (seed, file, script)));
        assert!(
            text.contains(r#"("m", "renew", "a b\nc", "a d\nc"),"#),
            "{text}"
        );
    }
}
