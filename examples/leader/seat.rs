//! Runs a candidate, on a thread of this process or in a process of its own.

use std::{
    env,
    error::Error,
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{self, Child, Command, Stdio},
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

use dlock::{ConnectError, LockManager, LockManagerBuilder, store::memory::MemoryStore};

use crate::{
    Cli,
    lead::{Board, Candidate, DIE, OnLost, Say},
};

/// A line of output of a candidate. `None` means that the candidate has ended.
pub(crate) struct Said {
    pub(crate) candidate: usize,
    pub(crate) text: Option<String>,
}

/// A handle that sends commands to a candidate.
pub(crate) enum Seat {
    Thread(Sender<String>),
    Process(Child),
}

impl Seat {
    pub(crate) fn thread(
        number: usize,
        store: MemoryStore,
        said: Sender<Said>,
        cli: &Cli,
        board: &Path,
    ) -> Self {
        let (order, orders) = mpsc::channel();
        let (on_lost, without_lock) = (cli.on_lost, cli.without_lock);
        let board = Board(board.to_owned());
        thread::spawn(move || {
            let to = said.clone();
            let say: Say = Box::new(move |text| tell(&to, number, Some(text)));
            let locks = async { builder().build_with_store(store) };
            let place = Place { say, orders, board };
            if let Err(error) = stand(number, locks, place, on_lost, without_lock) {
                tell(&said, number, Some(format!("cannot go on: {error}")));
            }
            tell(&said, number, None);
        });
        Self::Thread(order)
    }

    /// Starts this program as a candidate.
    pub(crate) fn process(
        number: usize,
        said: Sender<Said>,
        cli: &Cli,
        board: &Path,
    ) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--candidate", &number.to_string()]);
        command.arg("--board").arg(board);
        command.args(cli.without_lock.then_some("--without-lock"));
        command.args((cli.on_lost == OnLost::Finish).then_some("--on-lost=finish"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = child.stdout.take().expect("it is piped");
        thread::spawn(move || {
            for text in BufReader::new(lines).lines().map_while(Result::ok) {
                tell(&said, number, Some(text));
            }
            tell(&said, number, None);
        });
        Ok(Self::Process(child))
    }

    pub(crate) fn tell(&mut self, order: &str) -> io::Result<()> {
        match self {
            Self::Thread(orders) => orders.send(order.to_owned()).map_err(io::Error::other),
            // SIGKILL: no destructor runs, so the lock is not released.
            Self::Process(child) if order == DIE => child.kill(),
            Self::Process(child) => {
                let stdin = child.stdin.as_mut().expect("it is piped");
                writeln!(stdin, "{order}")
            }
        }
    }
}

impl Drop for Seat {
    /// A candidate does not outlive this process after an error.
    fn drop(&mut self) {
        if let Self::Process(child) = self {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn tell(said: &Sender<Said>, candidate: usize, text: Option<String>) {
    // The receiver is gone only when the whole run has failed.
    said.send(Said { candidate, text }).ok();
}

/// Runs this process as one candidate. Commands come from the standard input.
pub(crate) fn run_here(cli: &Cli, number: usize, board: &Path) -> Result<(), Box<dyn Error>> {
    let (order, orders) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            order.send(line).ok();
        }
        // The parent process has ended, so no command can arrive.
        process::exit(1);
    });
    let say: Say = Box::new(|text| println!("{text}"));
    let board = Board(board.to_owned());
    let locks = builder().application("leader").connect_env();
    let place = Place { say, orders, board };
    stand(number, locks, place, cli.on_lost, cli.without_lock)
}

/// The connections of a candidate to the test.
struct Place {
    say: Say,
    orders: Receiver<String>,
    board: Board,
}

/// Runs a candidate on one thread, so that a blocked thread pauses all of it.
fn stand(
    number: usize,
    locks: impl Future<Output = Result<LockManager, ConnectError>>,
    Place { say, orders, board }: Place,
    on_lost: OnLost,
    without_lock: bool,
) -> Result<(), Box<dyn Error>> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(async {
        let candidate = Candidate {
            number,
            locks: locks.await?,
            board,
            say,
            orders,
        };
        Ok(candidate.run(on_lost, without_lock).await?)
    })
}

/// Renews leases on the runtime of the caller, so that a blocked thread stops renewal, as a paused process does. A
/// service keeps the default, a separate thread for renewals.
fn builder() -> LockManagerBuilder {
    LockManager::builder().renewal_thread(false)
}
