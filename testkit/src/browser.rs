//! A Chromium without a window, which the tests of a process share.
//!
//! Its own protocol goes over two pipes: no port is open, and the browser ends with the pipes, however this process ends.

mod page;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::geteuid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

pub use page::Page;

use crate::child::OwnedChild;
use crate::{program, reaper};
use dlock_waiting::within;

/// A browser starts in two seconds, and its answers come at once.
const DEADLINE: Duration = Duration::from_secs(180);

/// The pipes of the protocol are its third and fourth file; a command has only the first three.
const WITH_PIPES: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

const ARGUMENTS: [&str; 15] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-first-run",
    "--no-proxy-server",
    "--password-store=basic",
];

/// A running browser. It ends with the process of the tests, and its profile with it.
pub struct Browser {
    link: Arc<Link>,
    _process: OwnedChild,
    profile: TempDir,
}

impl Browser {
    /// The browser of this process, started by the first test that needs it.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceLock<Browser> = OnceLock::new();
        // A second test waits for the start, which is short, in a thread of its own.
        let browser = tokio::task::spawn_blocking(|| SHARED.get_or_init(Self::start));
        browser.await.expect("the browser starts")
    }

    /// Opens a page whose cookies, storage and cache are its own.
    pub async fn open(&'static self) -> Page {
        Page::open(&self.link, self).await
    }

    fn start() -> Self {
        let found = program::chromium();
        let profile = TempDir::with_prefix("dlock-chromium-").expect("a directory can be made");
        reaper::removes(profile.path());
        let log = File::create(profile.path().join("log")).expect("a file can be made");
        let mut command = Command::new("sh");
        command
            .args(["-c", WITH_PIPES, "sh"])
            .arg(&found.program)
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(geteuid().is_root().then_some("--no-sandbox"))
            .env("LD_LIBRARY_PATH", &found.libraries)
            .envs(found.fonts.map(|fonts| ("FONTCONFIG_FILE", fonts)))
            // Nothing is left in the folders of the user, and times are the same on every machine.
            .env("HOME", profile.path())
            .env("XDG_CACHE_HOME", profile.path().join("cache"))
            .env("XDG_CONFIG_HOME", profile.path().join("config"))
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut process =
            OwnedChild::spawn(&mut command).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = process.inner().stdin.take().expect("it is piped");
        let output = process.inner().stdout.take().expect("it is piped");
        Self {
            link: Link::over(input, output),
            _process: process,
            profile,
        }
    }

    /// The last lines that the browser has written for its developers.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.profile.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// The calls that wait for an answer, and the pages that hear events.
struct Link {
    input: Mutex<ChildStdin>,
    next: AtomicU64,
    calls: Mutex<HashMap<u64, oneshot::Sender<Result<Value, String>>>>,
    listeners: Mutex<HashMap<String, Listener>>,
}

type Listener = Box<dyn Fn(&str, &Value) + Send>;

impl Link {
    fn over(input: ChildStdin, output: ChildStdout) -> Arc<Self> {
        let link = Arc::new(Self {
            input: Mutex::new(input),
            next: AtomicU64::new(1),
            calls: Mutex::default(),
            listeners: Mutex::default(),
        });
        let reader = Arc::clone(&link);
        thread::spawn(move || reader.read(output));
        link
    }

    fn read(&self, output: ChildStdout) {
        let mut output = BufReader::new(output);
        let mut message = Vec::new();
        while output
            .read_until(0, &mut message)
            .is_ok_and(|length| length > 0)
        {
            message.pop();
            let parsed: Value =
                serde_json::from_slice(&message).expect("the browser speaks its protocol");
            self.deliver(&parsed);
            message.clear();
        }
        // The browser has ended: each call fails, since its sender is dropped.
        lock(&self.calls).clear();
    }

    fn deliver(&self, message: &Value) {
        if let Some(id) = message["id"].as_u64() {
            let Some(call) = lock(&self.calls).remove(&id) else {
                return;
            };
            let answer = match message.get("error") {
                Some(error) => Err(error["message"].to_string()),
                None => Ok(message["result"].clone()),
            };
            call.send(answer).ok();
        } else if let Some(session) = message["sessionId"].as_str()
            && let Some(listener) = lock(&self.listeners).get(session)
        {
            listener(
                message["method"].as_str().unwrap_or_default(),
                &message["params"],
            );
        }
    }

    fn send(&self, session: Option<&str>, method: &str, params: &Value) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        // A browser that has ended is noticed by the reader.
        lock(&self.input).write_all(&text).ok();
        id
    }

    /// Calls a method of the browser, or of the page of a session.
    async fn call(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, String> {
        let (sender, receiver) = oneshot::channel();
        {
            // Held until the call is known: its answer may come before `send` returns.
            let mut calls = lock(&self.calls);
            let id = self.send(session, method, &params);
            calls.insert(id, sender);
        }
        match within(DEADLINE, receiver).await {
            Some(Ok(answer)) => answer,
            Some(Err(_)) => Err("the browser has ended".to_owned()),
            None => Err(format!("no answer within {DEADLINE:?}")),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
