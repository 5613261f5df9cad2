//! The part of the locks that a page shows: its filter, its order and its place, as they stand in a URL.

use std::{borrow::Cow, cmp::Ordering};

use dlock_admin::KeyPattern;
use dlock_runtime::store::LockMode;
use url::form_urlencoded;

use super::picture::{Picture, ShownHolder, ShownLock, Waiter};

/// The number of locks on a page, unless the query names another.
const PER: usize = 50;

/// The greatest number of locks on a page.
const MOST: usize = 500;

/// The greatest length of a filter: that of a key.
const LONGEST: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    filter: Option<Filter>,
    by: By,
    /// `true` for held locks, `false` for those with waiters.
    held: Option<bool>,
    /// `true` for shared locks.
    shared: Option<bool>,
    sort: Sort,
    is_descending: bool,
    page: usize,
    per: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Key,
    Held,
    Ttl,
    Waiters,
    Wait,
    Holder,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Filter {
    /// A pattern of whole keys, or of whole labels.
    Pattern(KeyPattern),
    /// A part of a key, a holder, a waiter or a function, in lower case.
    Part(String),
}

/// The names that a filter is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    All,
    /// The labels of holders: what a process holds.
    Holder,
    /// The labels of waiters: what a process waits for.
    Waiter,
}

/// The locks of one page.
#[derive(Debug)]
pub(super) struct Chosen<'a> {
    pub(super) locks: Vec<ShownLock<'a>>,
    /// The number of locks on all pages.
    pub(super) matching: usize,
    /// The number of this page, from 1.
    pub(super) page: usize,
    pub(super) pages: usize,
    pub(super) per: usize,
}

/// The place of a page among all locks that match.
#[derive(Clone, Copy, Debug)]
struct PagePlace {
    matching: usize,
    page: usize,
    pages: usize,
    per: usize,
    begin: usize,
    end: usize,
}

impl PagePlace {
    fn with(self, locks: Vec<ShownLock<'_>>) -> Chosen<'_> {
        let Self {
            matching,
            page,
            pages,
            per,
            ..
        } = self;
        Chosen {
            locks,
            matching,
            page,
            pages,
            per,
        }
    }
}

impl Query {
    /// Reads the query of a URL. A field without a value is not set, and unknown fields are ignored.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut query = Self {
            filter: None,
            by: By::All,
            held: None,
            shared: None,
            sort: Sort::Key,
            is_descending: false,
            page: 1,
            per: PER,
        };
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if value.is_empty() {
                continue;
            }
            let unknown = |known: &str| Err(format!("invalid `{name}`: use {known}"));
            match &*name {
                // The work of a pattern grows with its length.
                "filter" if value.len() > LONGEST => {
                    return unknown(&format!("at most {LONGEST} bytes"));
                }
                "filter" => query.filter = Some(Filter::new(&value)),
                "by" => match &*value {
                    "holder" => query.by = By::Holder,
                    "waiter" => query.by = By::Waiter,
                    _ => return unknown("`holder` or `waiter`"),
                },
                "state" => match &*value {
                    "held" => query.held = Some(true),
                    "waiting" => query.held = Some(false),
                    _ => return unknown("`held` or `waiting`"),
                },
                "mode" => match &*value {
                    "shared" => query.shared = Some(true),
                    "exclusive" => query.shared = Some(false),
                    _ => return unknown("`exclusive` or `shared`"),
                },
                "sort" => match Sort::named(&value) {
                    Some(sort) => query.sort = sort,
                    None => {
                        return unknown("`key`, `held`, `ttl`, `waiters`, `wait` or `holder`");
                    }
                },
                "order" => match &*value {
                    "asc" => query.is_descending = false,
                    "desc" => query.is_descending = true,
                    _ => return unknown("`asc` or `desc`"),
                },
                "page" => match value.parse() {
                    Ok(page) if page > 0 => query.page = page,
                    _ => return unknown("a number from 1"),
                },
                "per" => match value.parse() {
                    Ok(per) if (1..=MOST).contains(&per) => query.per = per,
                    _ => return unknown(&format!("a number from 1 to {MOST}")),
                },
                _ => {}
            }
        }
        Ok(query)
    }

    /// Returns the locks of the page, or of the last one if there are fewer pages.
    pub(super) fn choose<'a>(&self, picture: &'a Picture) -> Chosen<'a> {
        let names = self
            .filter
            .as_ref()
            .map(|it| it.of_texts(picture.texts(), self.by));
        let taken = || {
            let names = names.as_deref().unwrap_or_default();
            picture.locks().filter(move |lock| self.takes(*lock, names))
        };
        if self.sort == Sort::Key {
            // They are in order already, and need no list of all that match.
            let matching = taken().count();
            let place = self.place(matching);
            let first = if self.is_descending {
                matching - place.end
            } else {
                place.begin
            };
            let mut locks: Vec<_> = taken().skip(first).take(place.end - place.begin).collect();
            if self.is_descending {
                locks.reverse();
            }
            return place.with(locks);
        }
        let mut locks: Vec<_> = taken().collect();
        let place = self.place(locks.len());
        let (begin, end) = (place.begin, place.end);
        let order = |one: &ShownLock<'_>, other: &ShownLock<'_>| {
            self.order(*one, *other)
                .then_with(|| one.key().cmp(other.key()))
        };
        // Only the pages up to this one have to be in order.
        if end < place.matching {
            locks.select_nth_unstable_by(end - 1, order);
        }
        locks[..end].sort_unstable_by(order);
        locks.truncate(end);
        locks.drain(..begin);
        place.with(locks)
    }

    /// Returns the place of this page, or of the last one, among so many locks.
    fn place(&self, matching: usize) -> PagePlace {
        let pages = matching.div_ceil(self.per).max(1);
        let page = self.page.min(pages);
        PagePlace {
            matching,
            page,
            pages,
            per: self.per,
            begin: (page - 1) * self.per,
            end: (page * self.per).min(matching),
        }
    }

    /// Returns the page before there is a picture.
    pub(super) fn of_nothing(&self) -> Chosen<'static> {
        self.place(0).with(Vec::new())
    }

    fn takes(&self, lock: ShownLock<'_>, names: &[bool]) -> bool {
        let is_shared = || matches!(lock.mode(), Some(LockMode::Shared | LockMode::Permits(_)));
        let in_state = match self.held {
            Some(true) => lock.holder_count() > 0,
            Some(false) => lock.waiter_count() > 0,
            None => true,
        };
        let in_mode = match self.shared {
            Some(wanted) => lock.mode().is_some() && is_shared() == wanted,
            None => true,
        };
        in_state
            && in_mode
            && self
                .filter
                .as_ref()
                .is_none_or(|filter| self.is_named(lock, filter, names))
    }

    /// Returns `true` if a name of the lock matches; `names` says so of labels and functions.
    fn is_named(&self, lock: ShownLock<'_>, filter: &Filter, names: &[bool]) -> bool {
        let matches = |text: u32| {
            let place = usize::try_from(text).unwrap_or(usize::MAX);
            names.get(place).copied().unwrap_or_default()
        };
        let of_holders = || lock.holders().flat_map(ShownHolder::texts).any(matches);
        let of_waiters = || lock.waiters().map(Waiter::text).any(matches);
        match (self.by, filter) {
            (By::Holder, _) => lock.holders().any(|it| matches(it.texts()[0])),
            (By::Waiter, _) => of_waiters(),
            (By::All, Filter::Pattern(pattern)) => pattern.matches(&lowered(lock.key())),
            (By::All, Filter::Part(part)) => {
                has_part(lock.key(), part) || of_holders() || of_waiters()
            }
        }
    }

    /// Locks without a value come last in both orders.
    fn order(&self, one: ShownLock<'_>, other: ShownLock<'_>) -> Ordering {
        let values = [one, other];
        match self.sort {
            Sort::Key => Ordering::Equal,
            Sort::Held => self.compare(values.map(|lock| lock.holder()?.held_ms())),
            Sort::Ttl => self.compare(values.map(|lock| lock.holder()?.ttl_ms())),
            Sort::Waiters => self.compare(values.map(|lock| Some(lock.waiter_count()))),
            Sort::Wait => self.compare(values.map(ShownLock::longest_wait_ms)),
            Sort::Holder => self.compare(values.map(|lock| lock.holder()?.label())),
        }
    }

    fn compare<T: Ord>(&self, values: [Option<T>; 2]) -> Ordering {
        match values {
            [Some(one), Some(other)] if self.is_descending => other.cmp(&one),
            [Some(one), Some(other)] => one.cmp(&other),
            [Some(_), None] => Ordering::Less,
            [None, Some(_)] => Ordering::Greater,
            [None, None] => Ordering::Equal,
        }
    }
}

impl Sort {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "key" => Self::Key,
            "held" => Self::Held,
            "ttl" => Self::Ttl,
            "waiters" => Self::Waiters,
            "wait" => Self::Wait,
            "holder" => Self::Holder,
            _ => return None,
        })
    }
}

impl Filter {
    fn new(text: &str) -> Self {
        let text = text.to_lowercase();
        if text.contains('*') {
            // The other signs of patterns may stand in keys.
            let mut pattern = String::with_capacity(text.len());
            for c in text.chars() {
                if matches!(c, '?' | '[' | '\\') {
                    pattern.push('\\');
                }
                pattern.push(c);
            }
            Self::Pattern(KeyPattern::new(&pattern))
        } else {
            Self::Part(text)
        }
    }

    /// Returns for each label and function whether it matches.
    fn of_texts(&self, texts: &[Box<str>], by: By) -> Vec<bool> {
        let texts = texts.iter();
        match (self, by) {
            // It is one of whole keys.
            (Self::Pattern(_), By::All) => Vec::new(),
            (Self::Pattern(pattern), _) => {
                texts.map(|text| pattern.matches(&lowered(text))).collect()
            }
            (Self::Part(part), _) => texts.map(|text| has_part(text, part)).collect(),
        }
    }
}

/// Returns `true` if `text` contains `part`, which is in lower case.
fn has_part(text: &str, part: &str) -> bool {
    if text.is_ascii() {
        let mut places = text.as_bytes().windows(part.len().max(1));
        part.is_empty() || places.any(|it| it.eq_ignore_ascii_case(part.as_bytes()))
    } else {
        text.to_lowercase().contains(part)
    }
}

fn lowered(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) || !text.is_ascii() {
        text.to_lowercase().into()
    } else {
        text.into()
    }
}
