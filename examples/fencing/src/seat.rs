//! Runs a seller, on a thread of this process or in a process of its own that can be paused.

use std::{
    env,
    error::Error,
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    thread,
};

use dlock::{ConnectError, LockManager, LockManagerBuilder, store::memory::MemoryStore};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::{How, sell::Seller, stock::Stock};

/// A line of output of a seller. `None` means that the seller has ended.
pub(crate) struct Said {
    pub(crate) seller: &'static str,
    pub(crate) text: Option<String>,
}

/// A handle that pauses and continues a seller.
pub(crate) enum Seat {
    Thread(Sender<()>),
    Process(Child),
}

impl Seat {
    pub(crate) fn thread(
        seller: &'static str,
        store: MemoryStore,
        said: Sender<Said>,
        database: &Path,
        how: How,
    ) -> Self {
        let (wake, woken) = mpsc::channel();
        let woken = Mutex::new(woken);
        let database = database.to_owned();
        thread::spawn(move || {
            let to = said.clone();
            let voice = Voice {
                say: Box::new(move |text| tell(&to, seller, Some(text))),
                stall: Box::new(move || {
                    let woken = woken.lock().unwrap_or_else(PoisonError::into_inner);
                    woken.recv().ok();
                }),
            };
            let locks = async { builder().build_with_store(store) };
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let sold = runtime
                .map_err(Box::from)
                .and_then(|runtime| runtime.block_on(sell_here(locks, &database, how, voice)));
            if let Err(error) = sold {
                tell(&said, seller, Some(format!("cannot go on: {error}")));
            }
            tell(&said, seller, None);
        });
        Self::Thread(wake)
    }

    /// Starts this program as a seller.
    pub(crate) fn process(
        seller: &'static str,
        said: Sender<Said>,
        database: &Path,
        how: How,
    ) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.arg("--database").arg(database);
        command.args(how.without_fencing.then_some("--without-fencing"));
        command.args(how.stall.then_some("--stall"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = child.stdout.take().expect("it is piped");
        thread::spawn(move || {
            for text in BufReader::new(lines).lines().map_while(Result::ok) {
                tell(&said, seller, Some(text));
            }
            tell(&said, seller, None);
        });
        Ok(Self::Process(child))
    }

    /// Pauses a seller as a suspended machine does. A thread has paused itself.
    pub(crate) fn stop(&self) -> io::Result<&'static str> {
        let Self::Process(child) = self else {
            return Ok("is paused: its thread is blocked");
        };
        let pid = Pid::from_child(child);
        kill_process(pid, Signal::STOP)?;
        // The signal is only queued. `NOWAIT` leaves the exit status for other callers.
        let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), until)?;
        Ok("is paused: its process is stopped")
    }

    /// Continues the seller.
    pub(crate) fn wake(&mut self) -> io::Result<()> {
        match self {
            Self::Thread(wake) => wake.send(()).map_err(io::Error::other),
            Self::Process(child) => {
                let stdin = child.stdin.as_mut().expect("it is piped");
                stdin.write_all(b"\n")?;
                Ok(kill_process(Pid::from_child(child), Signal::CONT)?)
            }
        }
    }
}

impl Drop for Seat {
    /// A seller, paused or not, does not outlive this process after an error.
    fn drop(&mut self) {
        if let Self::Process(child) = self {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn tell(said: &Sender<Said>, seller: &'static str, text: Option<String>) {
    // The receiver is gone only when the whole run has failed.
    said.send(Said { seller, text }).ok();
}

/// Runs this process as one seller.
pub(crate) async fn run_here(database: &Path, how: How) -> Result<(), Box<dyn Error>> {
    let voice = Voice {
        say: Box::new(|text| println!("{text}")),
        // The process is stopped here in every run.
        stall: Box::new(|| drop(io::stdin().read_line(&mut String::new()))),
    };
    let locks = builder().application("fencing").connect_env();
    sell_here(locks, database, how, voice).await
}

/// The functions that print a seller's output and pause it.
struct Voice {
    say: Box<dyn Fn(String) + Send + Sync>,
    stall: Box<dyn Fn() + Send + Sync>,
}

async fn sell_here(
    locks: impl Future<Output = Result<LockManager, ConnectError>>,
    database: &Path,
    how: How,
    Voice { say, stall }: Voice,
) -> Result<(), Box<dyn Error>> {
    let seller = Seller {
        locks: locks.await?,
        stock: Stock::open_file(database, !how.without_fencing).await?,
        say,
        stall: how.stall.then_some(stall),
    };
    Ok(seller.run().await?)
}

/// Renews leases on the runtime of the caller, so that a blocked thread stops renewal, as a paused process does. A
/// service keeps the default, a separate thread for renewals.
fn builder() -> LockManagerBuilder {
    LockManager::builder().renewal_thread(false)
}
