//! Values made of files, such as certificates, that are loaded again while the program runs.
//!
//! # Rules
//!
//! - **Safety.** One thread loads, so the older of two loads is never the last. It is a thread of its own, and no caller waits for
//!   it: a file may hang. (`no_caller_waits_for_a_load_that_hangs`)
//! - A load that fails or panics changes nothing: two files are replaced one after the other.
//!   (`a_load_that_fails_changes_nothing`)
//! - A fault of TLS ends the waits of callers only if the certificates were loaded just before: otherwise the next attempt may
//!   succeed. (`a_fault_is_final_only_if_the_files_were_just_loaded`)

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use crate::file::OptionError;

/// The pauses between two loads.
#[derive(Clone, Copy)]
struct Pauses {
    usual: Duration,
    /// After a failed connection.
    least: Duration,
}

const PAUSES: Pauses = Pauses {
    usual: Duration::from_secs(60),
    least: Duration::from_secs(1),
};

/// A load that takes longer is logged when a connection fails meanwhile.
const SLOW: Duration = Duration::from_secs(10);

/// A value that was loaded so recently is as the files are.
const RECENT: Duration = Duration::from_secs(3);

/// A value made of files, such as certificates, which is loaded again each minute. Clones share it.
///
/// Certificates are replaced while a program runs. A store takes the value for each connection that it makes. If a connection
/// fails, it calls [`failed`](Self::failed), since the reason may be that they were replaced. If a load fails, the log says so
/// once, and the value from before stays.
///
/// It has a thread, which ends soon after the last clone was dropped, but not before a load that is under way.
///
/// ```
/// use dlock_net::{HandshakeError, OptionError, Reloaded, read_option_file};
///
/// /// The authorities that connections trust.
/// fn authorities(path: String) -> Result<Reloaded<Vec<u8>>, OptionError> {
///     Reloaded::new("my-store", move || read_option_file("sslrootcert", &path))
/// }
///
/// async fn connect<E: HandshakeError>(authorities: &Reloaded<Vec<u8>>) -> Result<(), E> {
///     let trusted = authorities.get();
///     # async fn handshake<E>(_: &[u8]) -> Result<(), E> { Ok(()) }
///     handshake(&trusted).await.map_err(|error| authorities.failed(error))
/// }
/// # let _ = authorities;
/// ```
pub struct Reloaded<T> {
    slot: Arc<Slot<T>>,
    /// Without a receiver if nothing is loaded again.
    wanted: SyncSender<()>,
}

/// The error of a connection, such as the `StoreError` of dlock.
pub trait HandshakeError {
    /// Returns `true` if one side does not accept the certificate of the other.
    fn is_about_tls(&self) -> bool;

    /// Returns the same error with another message.
    #[must_use]
    fn reworded(&self, reword: impl FnOnce(&str) -> String) -> Self;

    /// Returns the same error as one after which callers go on waiting.
    #[must_use]
    fn as_unreachable(&self) -> Self;
}

struct Slot<T> {
    store: &'static str,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: Arc<T>,
    /// The begin of the last load that has ended.
    loaded: Instant,
    /// Why it has failed, if it has.
    fault: Option<String>,
    /// The begin of a load that is under way, and is not logged as slow yet.
    begun: Option<Instant>,
}

impl<T: Send + Sync + 'static> Reloaded<T> {
    /// Loads the files on this thread, and again each minute on another one. `store` is its name for the log.
    ///
    /// # Errors
    ///
    /// That of `load`. If the system has no thread left, the log says so, and the files are not loaded again.
    pub fn new(
        store: &'static str,
        load: impl Fn() -> Result<T, OptionError> + Send + 'static,
    ) -> Result<Self, OptionError> {
        Self::with(store, load, PAUSES)
    }

    /// Takes a value that is never loaded again.
    #[must_use]
    pub fn fixed(value: T) -> Self {
        Self::of("", value).0
    }

    fn with(
        store: &'static str,
        load: impl Fn() -> Result<T, OptionError> + Send + 'static,
        pauses: Pauses,
    ) -> Result<Self, OptionError> {
        let (reloaded, wanted) = Self::of(store, load()?);
        let slot = reloaded.slot.clone();
        let thread = thread::Builder::new().name("dlock-files".to_owned());
        let begun = thread.spawn(move || slot.load_again(&load, &wanted, pauses));
        if let Err(error) = begun {
            let slot = &reloaded.slot;
            slot.log(&format!("no thread to load them again: {error}"));
        }
        Ok(reloaded)
    }

    fn of(store: &'static str, value: T) -> (Self, Receiver<()>) {
        let (wanted, is_wanted) = sync_channel(1);
        let state = State {
            value: Arc::new(value),
            loaded: Instant::now(),
            fault: None,
            begun: None,
        };
        let slot = Arc::new(Slot {
            store,
            state: Mutex::new(state),
        });
        (Self { slot, wanted }, is_wanted)
    }
}

impl<T> Reloaded<T> {
    /// Returns the last value that could be loaded.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        self.slot.state().value.clone()
    }

    /// Has the files loaded again within a second, because a connection has failed with this error.
    ///
    /// Returns the error. If it is about TLS, it names the fault of the last load, and callers go on waiting for the next attempt if
    /// the files may have been replaced since.
    #[must_use]
    pub fn failed<E: HandshakeError>(&self, error: E) -> E {
        // Before the load that begins now can end.
        let is_old = self.slot.state().loaded.elapsed() > RECENT;
        let is_loaded_again = self.soon();
        if !error.is_about_tls() {
            return error;
        }
        let state = self.slot.state();
        let error = match &state.fault {
            Some(fault) => {
                error.reworded(|text| format!("{text}; the files were not loaded again: {fault}"))
            }
            None => error,
        };
        if is_loaded_again && is_old {
            error.as_unreachable()
        } else {
            error
        }
    }

    /// Has the files loaded again within a second, although no error says that a connection has failed.
    pub fn load_soon(&self) {
        self.soon();
    }

    /// Returns `false` for a fixed value.
    fn soon(&self) -> bool {
        // It is full if that is wanted already.
        let is_wanted = !matches!(
            self.wanted.try_send(()),
            Err(TrySendError::Disconnected(()))
        );
        let mut state = self.slot.state();
        let is_slow = state.begun.is_some_and(|begun| begun.elapsed() > SLOW);
        if is_slow {
            state.begun = None;
            drop(state);
            self.slot.log("to load them takes longer than ten seconds");
        }
        is_wanted
    }
}

impl<T> Slot<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Every change is complete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads until no store has the value.
    fn load_again(
        &self,
        load: &impl Fn() -> Result<T, OptionError>,
        wanted: &Receiver<()>,
        pauses: Pauses,
    ) {
        while wanted.recv_timeout(pauses.usual) != Err(RecvTimeoutError::Disconnected) {
            let begun = Instant::now();
            self.state().begun = Some(begun);
            let loaded = catch_unwind(AssertUnwindSafe(load));
            let (value, fault) = match loaded {
                Ok(Ok(value)) => (Some(Arc::new(value)), None),
                Ok(Err(error)) => (None, Some(error.to_string())),
                Err(_) => (None, Some("to load them has panicked".to_owned())),
            };
            self.ended(begun, value, fault);
            // A request for a load that comes meanwhile stays in the channel.
            thread::sleep(pauses.least);
        }
    }

    /// Takes the value of a load that has ended, and logs a new fault.
    fn ended(&self, begun: Instant, value: Option<Arc<T>>, fault: Option<String>) {
        let mut state = self.state();
        state.begun = None;
        state.loaded = begun;
        let is_news = state.fault != fault;
        state.fault.clone_from(&fault);
        let before = value.map(|value| std::mem::replace(&mut state.value, value));
        drop(state);
        drop(before);
        match fault {
            Some(fault) if is_news => self.log(&fault),
            None if is_news => {
                let store = self.store;
                tracing::info!(target: "dlock::store", store, "the files could be loaded again");
            }
            _ => {}
        }
    }

    fn log(&self, error: &str) {
        let store = self.store;
        tracing::warn!(
            target: "dlock::store", store, error,
            "files with certificates cannot be loaded again; their last content stays in use"
        );
    }
}

impl<T> Clone for Reloaded<T> {
    fn clone(&self) -> Self {
        Self {
            slot: self.slot.clone(),
            wanted: self.wanted.clone(),
        }
    }
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value may be a key.
        f.debug_struct("Reloaded")
            .field("store", &self.slot.store)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Weak};

    use super::*;

    const NEVER: Duration = Duration::from_secs(3600);
    const ONLY_IF_WANTED: Pauses = Pauses {
        usual: NEVER,
        least: Duration::ZERO,
    };
    const LIMIT: Duration = Duration::from_secs(30);

    /// A file, and how often it was loaded.
    #[derive(Default)]
    struct File {
        state: Mutex<(Content, u32)>,
        changed: Condvar,
    }

    #[derive(Clone, Copy, Default, PartialEq, Eq)]
    enum Content {
        #[default]
        First,
        Second,
        Broken,
        Panics,
        Hangs,
    }

    impl File {
        fn load(&self) -> Result<Content, OptionError> {
            let mut state = self.state.lock().unwrap();
            state.1 += 1;
            self.changed.notify_all();
            state = self
                .changed
                .wait_while(state, |it| it.0 == Content::Hangs)
                .unwrap();
            let content = state.0;
            drop(state);
            assert!(content != Content::Panics, "it panics");
            if content == Content::Broken {
                return Err(OptionError::new("sslkey", "it is broken"));
            }
            Ok(content)
        }

        fn set(&self, content: Content) {
            self.state.lock().unwrap().0 = content;
            self.changed.notify_all();
        }

        /// Waits until a load has begun that was not under way before.
        fn is_loaded_once_more(&self, reloaded: &Reloaded<Content>) {
            let state = self.state.lock().unwrap();
            let before = state.1;
            reloaded.soon();
            let waited = self
                .changed
                .wait_timeout_while(state, LIMIT, |it| it.1 == before);
            assert!(!waited.unwrap().1.timed_out());
        }
    }

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Failed {
        is_about_tls: bool,
        is_final: bool,
        text: String,
    }

    impl HandshakeError for Failed {
        fn is_about_tls(&self) -> bool {
            self.is_about_tls
        }

        fn reworded(&self, reword: impl FnOnce(&str) -> String) -> Self {
            let text = reword(&self.text);
            Self {
                text,
                ..self.clone()
            }
        }

        fn as_unreachable(&self) -> Self {
            let is_final = false;
            Self {
                is_final,
                ..self.clone()
            }
        }
    }

    fn failed(is_about_tls: bool) -> Failed {
        Failed {
            is_about_tls,
            is_final: true,
            text: "unknown issuer".to_owned(),
        }
    }

    fn of(file: &Arc<File>, pauses: Pauses) -> Reloaded<Content> {
        let file = file.clone();
        Reloaded::with("a store", move || file.load(), pauses).unwrap()
    }

    fn until(is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < LIMIT);
            thread::yield_now();
        }
    }

    #[test]
    fn a_load_that_fails_changes_nothing() {
        let file = Arc::<File>::default();
        let reloaded = of(&file, ONLY_IF_WANTED);
        file.set(Content::Second);
        reloaded.soon();
        until(|| *reloaded.get() == Content::Second);
        for content in [Content::Broken, Content::Panics] {
            file.set(content);
            // The second load begins after the end of the first one.
            file.is_loaded_once_more(&reloaded);
            file.is_loaded_once_more(&reloaded);
            assert!(*reloaded.get() == Content::Second);
        }
        file.set(Content::First);
        reloaded.soon();
        until(|| *reloaded.get() == Content::First);
    }

    #[test]
    fn no_caller_waits_for_a_load_that_hangs() {
        let file = Arc::<File>::default();
        let reloaded = of(&file, ONLY_IF_WANTED);
        file.set(Content::Hangs);
        file.is_loaded_once_more(&reloaded);
        let loads = file.state.lock().unwrap().1;
        for _ in 0..3 {
            reloaded.soon();
            assert!(*reloaded.get() == Content::First);
        }
        assert_eq!(file.state.lock().unwrap().1, loads, "one load at a time");
        let is_known_as_slow = || reloaded.slot.state().begun.is_none();
        assert!(!is_known_as_slow());
        let long_ago = Instant::now().checked_sub(2 * SLOW);
        reloaded.slot.state().begun = Some(long_ago.expect("the machine is up for longer"));
        reloaded.soon();
        assert!(is_known_as_slow(), "the log has it once");
        file.set(Content::Second);
        until(|| *reloaded.get() == Content::Second);
    }

    #[test]
    fn a_file_is_loaded_from_time_to_time_as_long_as_a_store_has_it() {
        let file = Arc::<File>::default();
        let often = Pauses {
            usual: Duration::from_millis(1),
            least: Duration::ZERO,
        };
        let reloaded = of(&file, often);
        file.set(Content::Second);
        until(|| *reloaded.get() == Content::Second);
        let slot: Weak<_> = Arc::downgrade(&reloaded.slot);
        drop(reloaded.clone());
        file.set(Content::First);
        until(|| *reloaded.get() == Content::First);
        drop(reloaded);
        until(|| slot.strong_count() == 0);
    }

    #[test]
    fn a_fault_is_final_only_if_the_files_were_just_loaded() {
        let file = Arc::<File>::default();
        let reloaded = of(&file, ONLY_IF_WANTED);
        let older = |by: Duration| {
            let earlier = Instant::now().checked_sub(by);
            reloaded.slot.state().loaded = earlier.expect("the machine is up for longer");
        };
        older(RECENT * 2);
        let first = reloaded.failed(failed(true));
        assert!(!first.is_final);
        assert_eq!(first.text, "unknown issuer");
        until(|| reloaded.slot.state().loaded.elapsed() < RECENT);
        // A paused machine may take longer than the limit of a recent load.
        until(|| reloaded.failed(failed(true)).is_final);
        file.set(Content::Broken);
        until(|| {
            let text = reloaded.failed(failed(true)).text;
            text.contains("the files were not loaded again") && text.contains("it is broken")
        });
        let away = failed(false);
        assert_eq!(reloaded.failed(away.clone()), away);
    }

    #[test]
    fn a_fixed_value_stays() {
        let fixed = Reloaded::fixed(7);
        assert!(!fixed.soon());
        fixed.slot.state().loaded -= RECENT * 2;
        let error = failed(true);
        assert_eq!(fixed.failed(error.clone()), error);
        assert_eq!(*fixed.get(), 7);
    }
}
