//! Puts mistakes into a text, each behind a switch that is read when the program runs.

use std::cmp::Reverse;
use std::ops::Range;

use super::mutant::Mutant;

/// The variable that says which mistake is made.
pub(super) const VARIABLE: &str = "DLOCK_MISTAKE";

/// A mistake at its place in a text.
struct Seed<'a> {
    at: Range<usize>,
    wrong: &'static str,
    mutant: &'a Mutant,
}

/// The Rust source `text` with all of `mutants`, which are about it.
///
/// The places of two may be the same, or one may lie in the other; an error if they overlap otherwise.
pub(super) fn switched<'a>(
    text: &str,
    mutants: impl Iterator<Item = &'a Mutant>,
) -> Result<String, String> {
    let (mut seeds, mut items) = (Vec::new(), String::new());
    for mutant in mutants {
        let found = mutant.find_in(text)?.into_iter();
        seeds.extend(found.map(|place| Seed {
            at: place.marked,
            wrong: place.wrong,
            mutant,
        }));
        items += mutant.items;
    }
    seeds.sort_by_key(|seed| (seed.at.start, Reverse(seed.at.end)));
    Ok(within(text, 0..text.len(), &seeds)? + &items)
}

/// The part of `text` with `seeds`, which lie in it, the outer before the inner ones.
fn within(text: &str, part: Range<usize>, seeds: &[Seed<'_>]) -> Result<String, String> {
    let mut made = String::new();
    let mut done = part.start;
    let mut rest = seeds;
    while let Some((outer, others)) = rest.split_first() {
        let inside = others
            .iter()
            .take_while(|it| it.at.start < outer.at.end || it.at == outer.at);
        let (inner, behind) = others.split_at(inside.count());
        if let Some(across) = inner.iter().find(|it| it.at.end > outer.at.end) {
            let names = [outer, across].map(|seed| seed.mutant.name);
            return Err(format!(
                "the places of `{}` and `{}` overlap",
                names[0], names[1]
            ));
        }
        made += &text[done..outer.at.start];
        let right = within(text, outer.at.clone(), inner)?;
        made += &either(outer, &text[outer.at.clone()], &right);
        done = outer.at.end;
        rest = behind;
    }
    Ok(made + &text[done..part.end])
}

/// The mistake if it is switched on, else `right`, which is `original` with other mistakes in it.
fn either(seed: &Seed<'_>, original: &str, right: &str) -> String {
    let (name, wrong) = (seed.mutant.name, seed.wrong);
    let choice = format!("if crate::mistakes::is_on({name:?}) {{ {wrong} }} else {{ {right} }}");
    let is_statement = wrong.is_empty() || wrong.ends_with(';');
    if is_statement || is_block(original) {
        choice
    } else {
        // As a part of an expression it would end there else.
        format!("({choice})")
    }
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

/// The module `mistakes` of a package, with the mistakes in its scripts, each with the text of its file.
pub(super) fn module<'a>(
    scripts: impl Iterator<Item = (&'a Mutant, String)>,
) -> Result<String, String> {
    let mut replaced = Vec::new();
    for (mutant, text) in scripts {
        for place in mutant.find_in(&text)? {
            let (whole, marked) = (place.whole, place.marked);
            let before = &text[whole.start..marked.start];
            let behind = &text[marked.end..whole.end];
            let wrong = format!("{before}{}{behind}", place.wrong);
            let (name, stem, right) = (mutant.name, script(mutant), &text[whole]);
            replaced.push(format!("    ({name:?}, {stem:?}, {right:?}, {wrong:?}),"));
        }
    }
    let replaced = replaced.join("\n");
    let parts = PARTS.map(|(script, parts)| format!("    ({script:?}, &{parts:?}),"));
    let parts = parts.join("\n");
    Ok(format!(
        "\
use std::sync::OnceLock;

const IN_SCRIPTS: &[(&str, &str, &str, &str)] = &[
{replaced}
];

const PARTS: &[(&str, &[&str])] = &[
{parts}
];

pub(crate) fn is_on(name: &str) -> bool {{
    static ON: OnceLock<String> = OnceLock::new();
    ON.get_or_init(|| std::env::var({VARIABLE:?}).unwrap_or_default()) == name
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
    ))
}

/// The name of the script in which a mistake is.
fn script(mutant: &Mutant) -> &'static str {
    let (_, name) = mutant.file.rsplit_once('/').unwrap_or(("", mutant.file));
    name.trim_end_matches(".lua").trim_end_matches(".sql")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mutant(name: &'static str, place: &'static str, wrong: &'static str) -> Mutant {
        Mutant::new(name, "It is wrong", "p/src/f.rs", place, wrong, &[])
    }

    fn both(text: &str, mutants: &[Mutant]) -> Result<String, String> {
        switched(text, mutants.iter())
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
        let script = "x a b\nc".to_owned();
        let text = module([(&mistake, script)].into_iter()).expect("its place is there");
        assert!(
            text.contains(r#"("m", "renew", "a b\nc", "a d\nc"),"#),
            "{text}"
        );
    }
}
