//! The state of the screen, and its changes. It uses no terminal, server or clock.

#[cfg(test)]
mod tests;

use std::{cmp::Reverse, sync::Arc};

use dlock_admin::view::LockView;
use dlock_admin_web::Server;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::rates::Rates;
use crate::follow::{Picture, Seen};

/// An event that changes the screen.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Picture(Picture),
    /// The current server, which a failover can change.
    Server(Server),
    /// The server did not answer, for this reason.
    Outage(String),
    /// The progress of the scan that is under way, in percent.
    Progress(Option<u8>),
    /// The messages about grants are received from now on.
    Seeing,
    /// The messages about grants are not received, for this reason.
    Blind(String),
    /// A second has passed with this number of grants.
    Second(u64),
    Key(KeyEvent),
    /// The size of the terminal changed, so the screen is drawn again.
    Resized,
    /// The terminal was closed.
    Closed,
}

/// Whether the program continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the user may want to leave"]
pub(crate) enum Step {
    Go,
    #[cfg(unix)]
    Suspend,
    Quit,
}

/// The current meaning of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Browse,
    /// Keys edit the filter.
    Filter,
    Help,
}

/// The order of locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Column {
    Key,
    Holder,
    Function,
    Held,
    Ttl,
    Waiters,
    #[default]
    Longest,
}

impl Column {
    pub(crate) const ALL: [Self; 7] = [
        Self::Key,
        Self::Holder,
        Self::Function,
        Self::Held,
        Self::Ttl,
        Self::Waiters,
        Self::Longest,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Key => "KEY",
            Self::Holder => "HOLDER",
            Self::Function => "FUNCTION",
            Self::Held => "HELD",
            Self::Ttl => "TTL",
            Self::Waiters => "WAITERS",
            Self::Longest => "LONGEST",
        }
    }

    fn next(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|&it| it == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) namespace: String,
    pub(crate) server: Server,
    pub(crate) picture: Option<Picture>,
    /// The reason why the server does not answer, if it does not.
    pub(crate) outage: Option<String>,
    /// The age of the picture in seconds.
    pub(crate) age: u64,
    /// The progress of the scan that is under way, in percent.
    pub(crate) progress: Option<u8>,
    pub(crate) rates: Rates,
    pub(crate) mode: Mode,
    pub(crate) paused: bool,
    /// `true` if the details of the selected lock are shown.
    pub(crate) details: bool,
    pub(crate) sort: Column,
    /// `true` if the order is reversed.
    pub(crate) reversed: bool,
    pub(crate) filter: String,
    /// The locks that are shown.
    rows: Vec<Arc<Seen>>,
    /// The key of the selected lock, whose row can change.
    chosen: Option<String>,
    /// The row of the selected lock, which stays selected after the lock's release.
    row: usize,
}

/// The number of rows of a page.
const PAGE: usize = 10;

impl Model {
    pub(crate) fn new(namespace: &str, server: Server) -> Self {
        Self {
            namespace: namespace.to_owned(),
            server,
            picture: None,
            outage: None,
            age: 0,
            progress: None,
            rates: Rates::default(),
            mode: Mode::default(),
            paused: false,
            details: false,
            sort: Column::default(),
            reversed: false,
            filter: String::new(),
            rows: Vec::new(),
            chosen: None,
            row: 0,
        }
    }

    pub(crate) fn update(&mut self, message: Message) -> Step {
        match message {
            Message::Picture(picture) => {
                self.outage = None;
                if !self.paused {
                    self.age = 0;
                    self.picture = Some(picture);
                    self.arrange();
                }
            }
            Message::Server(server) => self.server = server,
            Message::Outage(reason) => self.outage = Some(reason),
            Message::Progress(percent) => self.progress = percent,
            Message::Seeing => self.rates.seeing(),
            Message::Blind(reason) => self.rates.blind(reason),
            Message::Second(grants) => {
                self.age += 1;
                self.rates.push(grants);
            }
            Message::Key(key) => return self.key(key),
            Message::Resized => {}
            Message::Closed => return Step::Quit,
        }
        Step::Go
    }

    /// Returns the locks that match the filter, in the selected order.
    pub(crate) fn rows(&self) -> &[Arc<Seen>] {
        &self.rows
    }

    /// Chooses and sorts the rows, after a change of the locks, the filter or the order.
    fn arrange(&mut self) {
        let locks = self.picture.iter().flat_map(|it| &it.locks);
        let wanted = self.filter.to_lowercase();
        let locks = locks.filter(|it| matches(&it.lock, &wanted));
        let mut rows: Vec<_> = locks.cloned().collect();
        // Sort by key first: the second sort is stable. Text is sorted from A, with empty values last; times and
        // numbers from the greatest; TTLs from the smallest.
        rows.sort_by(|one, other| one.lock.key.cmp(&other.lock.key));
        match self.sort {
            Column::Key => {}
            Column::Holder => rows.sort_by_cached_key(|it| {
                let name = it.lock.holder().map(|it| it.name().to_owned());
                (name.is_none(), name)
            }),
            Column::Function => rows.sort_by_cached_key(|it| {
                let function = it.lock.holder().and_then(|it| it.function.clone());
                (function.is_none(), function)
            }),
            Column::Held => {
                rows.sort_by_cached_key(|it| Reverse(it.lock.holder().and_then(|it| it.held_ms)));
            }
            // A lock without a TTL is the most suspicious, so it comes first.
            Column::Ttl => rows.sort_by_cached_key(|it| {
                let ttl = it.lock.holder().map(|it| it.ttl_ms);
                (ttl.is_none(), ttl)
            }),
            Column::Waiters => rows.sort_by_cached_key(|it| Reverse(it.lock.waiter_count)),
            Column::Longest => rows.sort_by_cached_key(|it| Reverse(longest_wait(&it.lock))),
        }
        if self.reversed {
            rows.reverse();
        }
        self.rows = rows;
        match self.find_chosen() {
            Some(row) => self.row = row,
            None => self.go(|row| row),
        }
        if self.chosen.is_none() {
            self.details = false;
        }
    }

    fn find_chosen(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        self.rows.iter().position(|it| it.lock.key == *chosen)
    }

    /// Returns the row of the selected lock.
    pub(crate) fn chosen_row(&self) -> Option<usize> {
        self.chosen.as_ref().map(|_| self.row)
    }

    pub(crate) fn chosen_lock(&self) -> Option<&LockView> {
        Some(&self.rows[self.chosen_row()?].lock)
    }

    fn key(&mut self, key: KeyEvent) -> Step {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Step::Quit,
                // In raw mode, the terminal does not stop the program by itself.
                #[cfg(unix)]
                KeyCode::Char('z') => Step::Suspend,
                _ => Step::Go,
            };
        }
        match self.mode {
            Mode::Help => {
                self.mode = Mode::Browse;
                return if key.code == KeyCode::Char('q') {
                    Step::Quit
                } else {
                    Step::Go
                };
            }
            Mode::Filter => self.filter_key(key.code),
            Mode::Browse => return self.browse_key(key.code),
        }
        Step::Go
    }

    fn filter_key(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.mode = Mode::Browse,
            KeyCode::Esc => {
                self.mode = Mode::Browse;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Up => self.go(|row| row.saturating_sub(1)),
            KeyCode::Down => self.go(|row| row + 1),
            _ => {}
        }
        self.arrange();
    }

    fn browse_key(&mut self, key: KeyCode) -> Step {
        match key {
            KeyCode::Char('q') => return Step::Quit,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') | KeyCode::Right => self.sort_by(self.sort.next(1)),
            KeyCode::Char('S') | KeyCode::Left => {
                self.sort_by(self.sort.next(Column::ALL.len() - 1));
            }
            KeyCode::Char('r') => {
                self.reversed = !self.reversed;
                self.arrange();
            }
            KeyCode::Char('k') | KeyCode::Up => self.go(|row| row.saturating_sub(1)),
            KeyCode::Char('j') | KeyCode::Down => self.go(|row| row + 1),
            KeyCode::PageUp => self.go(|row| row.saturating_sub(PAGE)),
            KeyCode::PageDown => self.go(|row| row + PAGE),
            KeyCode::Char('g') | KeyCode::Home => self.go(|_| 0),
            KeyCode::Char('G') | KeyCode::End => self.go(|_| usize::MAX),
            KeyCode::Enter => self.details = !self.details && self.chosen.is_some(),
            // The topmost window is closed first.
            KeyCode::Esc if self.details => self.details = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.arrange();
            }
            _ => {}
        }
        Step::Go
    }

    fn sort_by(&mut self, column: Column) {
        self.sort = column;
        self.arrange();
    }

    /// Selects another row.
    fn go(&mut self, to: impl FnOnce(usize) -> usize) {
        self.row = to(self.row).min(self.rows.len().saturating_sub(1));
        self.chosen = self.rows.get(self.row).map(|it| it.lock.key.clone());
    }
}

/// Returns the longest wait of all waiters that are alive, in milliseconds.
pub(crate) fn longest_wait(lock: &LockView) -> Option<u64> {
    let living = lock.waiters.iter().filter(|it| it.is_alive);
    living.map(|it| it.waiting_ms).max()
}

fn matches(lock: &LockView, wanted: &str) -> bool {
    let of_holders = lock.holders.iter();
    let of_holders = of_holders.flat_map(|it| [Some(it.name()), it.function.as_deref()]);
    let of_waiters = lock.waiters.iter().map(|it| Some(it.name()));
    let names = of_holders.chain(of_waiters).flatten();
    let mut texts = std::iter::once(&*lock.key).chain(names);
    wanted.is_empty() || texts.any(|it| it.to_lowercase().contains(wanted))
}
