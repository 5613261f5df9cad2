//! Finds the known name that is closest to a misspelt one.

/// Returns the closest of `known`, or `None` if none is close.
pub(crate) fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the name may be wrong: `oder_id` finds `order_id`, and `x` finds only `X`. A wild guess is
    // worse than none.
    let allowed = name.chars().count() / 3;
    known
        .into_iter()
        .map(|candidate| {
            let same_letters = candidate.eq_ignore_ascii_case(name);
            let distance = if same_letters {
                0
            } else {
                distance(name, candidate)
            };
            (distance, candidate)
        })
        .filter(|&(distance, _)| distance <= allowed.max(1) && distance < name.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Joins names to a list: "`a`, `b` and `c`".
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Counts the edits between two names. Two swapped neighbors count as one edit, because they are a common
/// typing error.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let changed = usize::from(a[i] != b[j]);
            let mut best = (last[j] + changed).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits() {
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("ttl", ""), 3);
        assert_eq!(distance("tll", "ttl"), 1);
        assert_eq!(distance("kye", "key"), 1);
        assert_eq!(distance("oder_id", "order_id"), 1);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("abdc", "abcd"), 1);
        assert_eq!(distance("ca", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let options = ["key", "ttl", "wait", "max_hold"];
        assert_eq!(closest("kye", options), Some("key"));
        assert_eq!(closest("tll", options), Some("ttl"));
        assert_eq!(closest("TTL", options), Some("ttl"));
        assert_eq!(closest("maxhold", options), Some("max_hold"));
        assert_eq!(closest("lease", options), None);
        assert_eq!(closest("x", ["id"]), None);
        assert_eq!(closest("x", ["y"]), None);
        assert_eq!(closest("", ["y"]), None);
        assert_eq!(closest("ab", ["ax"]), Some("ax"));
        assert_eq!(closest("abcde", ["abxye"]), None);
        assert_eq!(closest("abcdef", ["abxyef"]), Some("abxyef"));
        assert_eq!(closest("x", ["X"]), Some("X"));
        assert_eq!(closest("wait", ["wat", "WAIT"]), Some("WAIT"));
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list([]), "");
        assert_eq!(list(["a"]), "`a`");
        assert_eq!(list(["a", "b"]), "`a` and `b`");
        assert_eq!(list(["a", "b", "c"]), "`a`, `b` and `c`");
    }

    proptest::proptest! {
        #[test]
        fn distance_is_symmetric_and_bounded(a in ".{0,12}", b in ".{0,12}") {
            let edits = distance(&a, &b);
            proptest::prop_assert_eq!(edits, distance(&b, &a));
            proptest::prop_assert!(edits <= a.chars().count().max(b.chars().count()));
        }
    }
}
