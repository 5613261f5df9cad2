//! The resource in the store that keeps the locks: an account for each key, with the entries that changed it.
//!
//! A transaction reads an account, and writes it later, without any other protection than its lock. Two at once would
//! give one number to two entries, or lose an amount.

use serde::{Deserialize, Serialize};

/// An account, as it sums up its entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) key: String,
    /// That of its last entry.
    pub(crate) number: i64,
    pub(crate) cents: i64,
}

/// The effect of one transaction on an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// One more than that of the entry before it, as far as its transaction saw.
    pub(crate) number: i64,
    pub(crate) process: i64,
    pub(crate) task: i64,
    pub(crate) token: i64,
    pub(crate) cents: i64,
}

impl Account {
    pub(crate) fn empty(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            number: 0,
            cents: 0,
        }
    }

    /// As stores without tables keep it.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an account is JSON")
    }

    pub(crate) fn from_json(json: &[u8]) -> Self {
        serde_json::from_slice(json).expect("an account is JSON")
    }
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Books {
    pub(crate) accounts: Vec<Account>,
    /// By key and number.
    pub(crate) entries: Vec<Entry>,
}

impl Books {
    /// Puts the entries into the order of their numbers.
    pub(crate) fn sort(&mut self) {
        let place = |it: &Entry| (it.key.clone(), it.number, it.token);
        self.entries.sort_by_key(place);
    }

    /// The faults of all copies, as text. Servers that have agreed on everything have the same.
    pub(crate) fn judge_all(copies: &[Self]) -> Vec<String> {
        let mut found: Vec<_> = copies.iter().flat_map(Self::judge).collect();
        let differ = |pair: &[Self]| pair[0] != pair[1];
        if copies.windows(2).any(differ) {
            let rest = copies.iter().map(|copy| copy.missing_from(copies));
            let rest: Vec<_> = rest.collect();
            found.push(format!(
                "the servers have different data; what each does not have: {rest:?}"
            ));
        }
        found
    }

    /// The entries of others that this one does not have.
    fn missing_from<'a>(&self, copies: &'a [Self]) -> Vec<&'a Entry> {
        let all = copies.iter().flat_map(|copy| &copy.entries);
        all.filter(|entry| !self.entries.contains(entry)).collect()
    }

    /// Their faults, as text.
    fn judge(&self) -> Vec<String> {
        let mut found = Vec::new();
        for account in &self.accounts {
            let entries: Vec<_> = self
                .entries
                .iter()
                .filter(|it| it.key == account.key)
                .collect();
            for pair in entries.windows(2) {
                let [before, after] = [pair[0], pair[1]];
                let what = if before.number == after.number {
                    "two transactions at once"
                } else if before.token > after.token {
                    "a transaction after one with a greater token"
                } else {
                    continue;
                };
                found.push(format!("{what}:\n  {before:?}\n  {after:?}"));
            }
            let cents: i64 = entries.iter().map(|it| it.cents).sum();
            let last = entries.last().map_or(0, |it| it.number);
            if (last, cents) != (account.number, account.cents) {
                found.push(format!(
                    "the books do not balance: {cents} cents in the entries up to {last}, and {account:?}"
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: i64, token: i64) -> Entry {
        Entry {
            key: "a".to_owned(),
            number,
            process: 1,
            task: 0,
            token,
            cents: 5,
        }
    }

    fn found(number: i64, cents: i64, entries: &[(i64, i64)]) -> Vec<String> {
        let key = "a".to_owned();
        let books = Books {
            accounts: vec![Account { key, number, cents }],
            entries: entries.iter().map(|it| entry(it.0, it.1)).collect(),
        };
        books.judge()
    }

    #[test]
    fn copies_that_differ_are_found() {
        let books = |tokens: &[i64]| Books {
            accounts: Vec::new(),
            entries: tokens.iter().map(|token| entry(*token, *token)).collect(),
        };
        let same = [books(&[1, 2]), books(&[1, 2])];
        assert_eq!(Books::judge_all(&same), [""; 0]);
        let found = Books::judge_all(&[books(&[1, 2]), books(&[1])]);
        let is_named = found[0].contains("[[], [Entry {") && found[0].contains("token: 2");
        assert!(found.len() == 1 && is_named, "{found:?}");
    }

    #[test]
    fn books_that_balance_are_well_and_others_are_not() {
        assert!(found(0, 0, &[]).is_empty());
        assert!(found(3, 15, &[(1, 7), (2, 7), (3, 9)]).is_empty());
        for (number, cents, entries, what) in [
            (2, 15, &[(1, 7), (2, 8), (2, 9)], "two transactions at once"),
            (3, 15, &[(1, 7), (2, 9), (3, 8)], "a greater token"),
            (3, 10, &[(1, 7), (2, 8), (3, 9)], "do not balance"),
            (4, 15, &[(1, 7), (2, 8), (3, 9)], "do not balance"),
        ] {
            let found = found(number, cents, entries).join("\n");
            assert!(found.contains(what), "{what}: {found}");
        }
    }
}
