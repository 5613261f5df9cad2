//! Where a seller is: on a thread of this process, or in a process of its own that can be stopped.

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

/// What a seller says; no text when it has ended.
pub(crate) struct Said {
    pub(crate) seller: &'static str,
    pub(crate) text: Option<String>,
}

/// A seller, as the coordinator sees it.
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

    /// This program once more.
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

    /// Stops a seller as a suspended machine would. A thread has stopped by itself.
    pub(crate) fn stop(&self) -> io::Result<&'static str> {
        let Self::Process(child) = self else {
            return Ok("stands still: its thread is blocked");
        };
        let pid = Pid::from_child(child);
        kill_process(pid, Signal::STOP)?;
        // The signal is only queued by now. `NOWAIT` leaves an exit status for others.
        let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), until)?;
        Ok("stands still: its process is stopped")
    }

    /// Lets it go on.
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
    /// None is left to itself, stopped or not, when this process gives up on an error.
    fn drop(&mut self) {
        if let Self::Process(child) = self {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn tell(said: &Sender<Said>, seller: &'static str, text: Option<String>) {
    // Whoever listened has given up, and ends everything.
    said.send(Said { seller, text }).ok();
}

/// A seller that is this process.
pub(crate) async fn run_here(database: &Path, how: How) -> Result<(), Box<dyn Error>> {
    let voice = Voice {
        say: Box::new(|text| println!("{text}")),
        // The process is stopped here each time, and not only when somebody is unlucky.
        stall: Box::new(|| drop(io::stdin().read_line(&mut String::new()))),
    };
    let locks = builder().application("fencing").connect_env();
    sell_here(locks, database, how, voice).await
}

/// How a seller is heard and held up, wherever it is.
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

/// Leases are renewed on the one thread that is held up here, as if all of the process were: a service leaves renewals
/// to the thread of their own, which goes on.
fn builder() -> LockManagerBuilder {
    LockManager::builder().renewal_thread(false)
}
