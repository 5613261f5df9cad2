//! All annotated functions of the program, collected by the linker.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use crate::{mode::LockMode, site::LockSite};

/// Each expansion of the attribute adds its site here.
#[cfg(not(target_family = "wasm"))]
#[linkme::distributed_slice]
pub static SITES: [&'static LockSite];

/// Linkers for wasm cannot collect distributed slices.
#[cfg(target_family = "wasm")]
static SITES: [&LockSite; 0] = [];

/// Returns every function under `#[distributed_lock]` in this program, ordered by file and line.
///
/// The list includes functions that are never called, and each generic function once. The linker omits a
/// library from which the program uses nothing; `use library as _;` is enough to include it. On wasm the list
/// is empty.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// for site in dlock::lock_sites() {
///     println!("{:30} ttl {:?}, wait {:?}: {site}", site.template(), site.ttl(), site.wait());
/// }
/// ```
#[must_use]
pub fn lock_sites() -> Vec<&'static LockSite> {
    let mut sites: Vec<_> = SITES.iter().copied().collect();
    sites.sort_by_key(|site| (site.file(), site.line()));
    sites
}

/// Checks that functions with the same key template have the same lock options. Call it in a test.
///
/// If two such functions differ in `ttl`, `wait`, `on_lost` or another option of the lock, one of them is probably a
/// mistake.
/// Templates that differ only in names, such as `order:<id>` and `order:<order.id>`, are the same lock. A
/// function with several keys must agree with the other functions of each key. Options that are computed at
/// each call are not compared.
///
/// The mode may differ: a reader locks a key in shared mode, a writer exclusively. Their other options must agree. The
/// functions that set `permits` for a key must set the same number.
///
/// # Panics
///
/// Panics if functions disagree. The message names each template, option, function and line.
///
/// # Examples
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// // #[test]
/// fn locks_agree() {
///     dlock::assert_lock_sites_agree();
/// }
/// # locks_agree();
/// ```
#[track_caller]
pub fn assert_lock_sites_agree() {
    let report = disagreements(&lock_sites());
    assert!(report.is_empty(), "{report}");
}

/// A function that takes a lock.
struct Taker<'a> {
    site: &'a LockSite,
    /// The number of permits, if it takes one of them.
    permits: Option<u32>,
}

fn disagreements(sites: &[&LockSite]) -> String {
    let mut locks: BTreeMap<String, (&str, Vec<Taker<'_>>)> = BTreeMap::new();
    for site in sites {
        for (template, mode) in site.templates().iter().zip(site.modes()) {
            let lock = locks.entry(shape(template));
            let (_, takers) = lock.or_insert_with(|| (template, Vec::new()));
            let permits = match mode {
                Some(LockMode::Permits(most)) => Some(most),
                _ => None,
            };
            // Two keys of one function may be the same lock except for the names.
            match takers.last_mut() {
                Some(last) if std::ptr::eq(last.site, *site) => {
                    last.permits = last.permits.or(permits);
                }
                _ => takers.push(Taker { site, permits }),
            }
        }
    }
    let mut report = String::new();
    for (template, takers) in locks.values() {
        let declared: Vec<_> = takers.iter().map(|it| (it.site, settings(it))).collect();
        for (index, (option, _)) in declared[0].1.iter().enumerate() {
            let declared: Vec<_> = declared
                .iter()
                .filter(|(site, _)| !site.computed().contains(option))
                .filter_map(|(site, settings)| Some((site, settings[index].1.as_ref()?)))
                .collect();
            if declared.windows(2).all(|pair| pair[0].1 == pair[1].1) {
                continue;
            }
            push(
                &mut report,
                format_args!("`{option}` differs for the lock `{template}`:"),
            );
            for (site, value) in declared {
                push(&mut report, format_args!("  {value}, in {site}"));
            }
        }
    }
    report
}

fn push(report: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(report, "{line}").expect("a string takes all");
}

/// Returns the template without the names in its placeholders.
fn shape(template: &str) -> String {
    let mut shape = String::new();
    let mut chars = template.chars().peekable();
    while let Some(char) = chars.next() {
        shape.push(char);
        if matches!(char, '<' | '>') && chars.next_if_eq(&char).is_some() {
            shape.push(char);
        } else if char == '<' {
            while chars.next_if(|inside| *inside != '>').is_some() {}
        }
    }
    shape
}

/// Returns each option and its value as text, if it has one to compare.
fn settings(taker: &Taker<'_>) -> [(&'static str, Option<String>); 7] {
    #[expect(clippy::unnecessary_wraps, reason = "one option may have none")]
    fn shown<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> Option<String> {
        Some(value.map_or_else(|| "not set".to_owned(), show))
    }
    let duration = |length: Duration| format!("{length:?}");
    let options = taker.site.options();
    [
        ("ttl", shown(options.ttl, duration)),
        ("wait", shown(options.wait, |wait| format!("{wait:?}"))),
        ("renew", shown(options.renew, |renew| renew.to_string())),
        ("max_hold", shown(options.max_hold, duration)),
        ("min_hold", shown(options.min_hold, duration)),
        (
            "on_lost",
            shown(options.on_lost, |loss| format!("{loss:?}")),
        ),
        // Readers and writers of a key, and those who take a permit, do not have the same mode.
        ("permits", taker.permits.map(|most| most.to_string())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{OnLost, Options, Wait};

    const TTL: Duration = Duration::from_secs(30);

    const fn site(
        function: &'static str,
        line: u32,
        templates: &'static [&'static str],
        options: Options,
        computed: &'static [&'static str],
    ) -> LockSite {
        LockSite::new(
            function,
            "a.rs",
            line,
            templates[0],
            templates,
            options,
            computed,
        )
    }

    static A: LockSite = site("a", 1, &["order:<id>"], Options::new(), &[]);
    static B: LockSite = site("b", 2, &["order:<order.id>"], Options::new().ttl(TTL), &[]);
    static C: LockSite = site("c", 3, &["order:<c>"], Options::new(), &["ttl"]);
    static D: LockSite = site("d", 4, &["order:<<id>>"], Options::new().renew(false), &[]);
    static E: LockSite = site(
        "e",
        5,
        &["shop", "order:<a>", "order:<b>"],
        Options::new(),
        &[],
    );

    const SHARED: Options = Options::new().mode(LockMode::Shared);
    const THREE: Options = Options::new().permits(3);

    static READS: LockSite = site("reads", 6, &["order:<id>"], SHARED, &[]);
    static THIRD: LockSite = site("third", 7, &["order:<id>"], THREE, &[]);
    static FIFTH: LockSite = site("fifth", 8, &["order:<id>"], Options::new().permits(5), &[]);
    static COUNTS: LockSite = site("counts", 9, &["order:<id>"], Options::new(), &["permits"]);
    static LISTS: LockSite = site(
        "lists",
        10,
        &["shop:<a>", "order:<b>"],
        Options::new().permits(5),
        &[],
    )
    .with_shared(&[false, true]);

    #[test]
    fn readers_and_writers_agree() {
        assert_eq!(disagreements(&[&A, &READS, &THIRD, &COUNTS, &LISTS]), "");
        assert_eq!(
            LISTS.modes(),
            [Some(LockMode::Permits(5)), Some(LockMode::Shared)]
        );
        assert_eq!(READS.modes(), [Some(LockMode::Shared)]);
        assert_eq!(COUNTS.modes(), [None]);
        assert_eq!(E.modes(), [Some(LockMode::Exclusive); 3]);
    }

    #[test]
    fn another_number_of_permits_is_named() {
        assert_eq!(
            disagreements(&[&A, &READS, &THIRD, &FIFTH, &COUNTS]),
            "`permits` differs for the lock `order:<id>`:\n  \
             3, in third (a.rs:7)\n  \
             5, in fifth (a.rs:8)\n"
        );
    }

    #[test]
    fn each_option_that_differs_is_named_with_the_values_unless_a_call_computes_it() {
        let (options, plain) = (
            Options::new(),
            site("plain", 1, &["k"], Options::new(), &[]),
        );
        let on_lost = options.on_lost(OnLost::Finish);
        for (computed, options, value) in [
            (&["ttl"], options.ttl(TTL), "30s"),
            (&["wait"], options.wait(Wait::For(TTL)), "For(30s)"),
            (&["renew"], options.renew(false), "false"),
            (&["max_hold"], options.max_hold(TTL), "30s"),
            (&["min_hold"], options.min_hold(TTL), "30s"),
            (&["on_lost"], on_lost, "Finish"),
        ] {
            let other = site("other", 2, &["k"], options, &[]);
            let [option] = computed;
            assert_eq!(
                disagreements(&[&plain, &other]),
                format!(
                    "`{option}` differs for the lock `k`:\n  \
                     not set, in plain (a.rs:1)\n  \
                     {value}, in other (a.rs:2)\n"
                )
            );
            let other = site("other", 2, &["k"], options, computed);
            assert_eq!(disagreements(&[&plain, &other]), "");
        }
    }

    #[test]
    fn names_do_not_make_another_lock() {
        assert_eq!(shape("order:<id>/<a.b()>"), "order:<>/<>");
        assert_eq!(shape("<<a>>:<b>"), "<<a>>:<>");
    }

    #[test]
    fn each_difference_is_named_with_its_places() {
        assert_eq!(
            disagreements(&[&A, &B, &C, &D]),
            "`ttl` differs for the lock `order:<id>`:\n  \
             not set, in a (a.rs:1)\n  \
             30s, in b (a.rs:2)\n"
        );
    }

    #[test]
    fn each_of_several_keys_is_a_lock_of_its_own() {
        assert_eq!(
            disagreements(&[&B, &E]),
            "`ttl` differs for the lock `order:<order.id>`:\n  \
             30s, in b (a.rs:2)\n  \
             not set, in e (a.rs:5)\n"
        );
        assert_eq!(disagreements(&[&A, &E]), "");
    }

    #[test]
    fn what_is_computed_or_another_lock_agrees() {
        assert_eq!(disagreements(&[&A, &C, &D]), "");
        assert_eq!(disagreements(&[&B, &C, &D]), "");
        assert_eq!(disagreements(&[]), "");
    }
}
