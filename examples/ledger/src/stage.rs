//! The processes that transfer, their time line, and the pauses of one of them.

use std::{
    env,
    error::Error,
    io,
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{
    books::Books,
    server::DATABASE_URL,
    teller::{DONE, Order, PAUSES, REFUSED},
    transfer::Point,
};

/// The demonstration fails after this time without a line.
const LIMIT: Duration = Duration::from_secs(120);
const TICK: Duration = Duration::from_millis(20);

/// Transfers of each of the other processes while `late` sleeps.
const TIMES: u32 = 10;

/// Whether the leases of the accounts 1 and 2 have ended, and how many processes wait for one of them.
const WAITS: &str = "
    SELECT NOT EXISTS (SELECT FROM holder WHERE key IN ('account:1', 'account:2') AND ends > clock_timestamp()),
           (SELECT count(*) FROM waiter WHERE key IN ('account:1', 'account:2') AND alive > clock_timestamp())";

const NAMES: [&str; 3] = ["late", "north", "south"];
const LATE: usize = 0;

struct Teller {
    // Killed when it is dropped, paused or not.
    process: Child,
    orders: ChildStdin,
}

/// A line of a process. `None` is the end of its output.
struct Said {
    by: usize,
    text: Option<String>,
}

pub(crate) struct Stage<'a> {
    books: &'a Books,
    tellers: Vec<Teller>,
    said: mpsc::UnboundedReceiver<Said>,
    begin: Instant,
    fenced: bool,
    refused: usize,
}

impl<'a> Stage<'a> {
    /// Starts this program three times.
    pub(crate) fn open(url: &str, books: &'a Books, fenced: bool) -> io::Result<Self> {
        let (tell, said) = mpsc::unbounded_channel();
        let mut tellers = Vec::new();
        for by in 0..NAMES.len() {
            let mut command = Command::new(env::current_exe()?);
            command.args(["--teller-in", &books.schema]);
            command.args((!fenced).then_some("--without-fence"));
            let mut process = command
                .env(DATABASE_URL, url)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let orders = process.stdin.take().expect("it is piped");
            let output = process.stdout.take().expect("it is piped");
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut lines = BufReader::new(output).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    let text = Some(line);
                    tell.send(Said { by, text }).ok();
                }
                tell.send(Said { by, text: None }).ok();
            });
            tellers.push(Teller { process, orders });
        }
        Ok(Self {
            books,
            tellers,
            said,
            begin: Instant::now(),
            fenced,
            refused: 0,
        })
    }

    /// `late` sleeps before it checks its lease. The others change the same accounts meanwhile.
    pub(crate) async fn sleep_before_the_fence(&mut self) -> Result<(), Box<dyn Error>> {
        self.put_to_sleep(Point::BeforeTheFence).await?;
        self.order_others().await?;
        self.until([1, 2], DONE).await?;
        self.wake().await?;
        self.until([LATE], DONE).await
    }

    /// `late` sleeps after it has checked its lease. The others want the same accounts meanwhile.
    pub(crate) async fn sleep_after_the_fence(&mut self) -> Result<(), Box<dyn Error>> {
        self.put_to_sleep(Point::AfterTheFence).await?;
        self.order_others().await?;
        // Without a fence, the others get the locks when the leases have ended.
        let are_done = if self.fenced {
            self.until_others_wait_or_are_done().await?
        } else {
            self.until([1, 2], DONE).await?;
            true
        };
        self.wake().await?;
        if are_done {
            self.until([LATE], DONE).await
        } else {
            self.until([LATE, 1, 2], DONE).await
        }
    }

    /// Ends the processes. Returns the number of transfers that the fence has refused.
    pub(crate) async fn close(mut self) -> Result<usize, Box<dyn Error>> {
        for Teller {
            mut process,
            orders,
        } in self.tellers.drain(..)
        {
            // The end of the input ends the process.
            drop(orders);
            let ended = timeout(LIMIT, process.wait()).await;
            let status = ended.map_err(|_| "a process does not end")??;
            if !status.success() {
                return Err(format!("a process ended with {status}").into());
            }
        }
        Ok(self.refused)
    }

    async fn put_to_sleep(&mut self, at: Point) -> Result<(), Box<dyn Error>> {
        let order = Order {
            from: 1,
            to: 2,
            cents: 2500,
            times: 1,
            sleeps: Some(at),
        };
        self.order(LATE, order).await?;
        self.until([LATE], PAUSES).await?;
        let pid = self.pid_of_late()?;
        kill_process(pid, Signal::STOP)?;
        // The signal is only queued. `NOWAIT` leaves the exit status for tokio.
        let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), until)?;
        self.print(LATE, "sleeps: its process is stopped");
        Ok(())
    }

    async fn wake(&mut self) -> Result<(), Box<dyn Error>> {
        self.print(LATE, "goes on");
        self.tellers[LATE].orders.write_all(b"\n").await?;
        Ok(kill_process(self.pid_of_late()?, Signal::CONT)?)
    }

    fn pid_of_late(&self) -> Result<Pid, &'static str> {
        let id = self.tellers[LATE].process.id();
        let id = id.and_then(|id| i32::try_from(id).ok());
        id.and_then(Pid::from_raw).ok_or("`late` has ended")
    }

    /// Has each of the others transfer from one of the two accounts to a third one.
    async fn order_others(&mut self) -> io::Result<()> {
        for (by, from) in [(1, 1), (2, 2)] {
            let order = Order {
                from,
                to: 3,
                cents: 100,
                times: TIMES,
                sleeps: None,
            };
            self.order(by, order).await?;
        }
        Ok(())
    }

    async fn order(&mut self, to: usize, order: Order) -> io::Result<()> {
        let line = order.to_line();
        self.tellers[to].orders.write_all(line.as_bytes()).await
    }

    /// Returns whether the others are done. Otherwise they wait, although the leases that they wait for have ended.
    async fn until_others_wait_or_are_done(&mut self) -> Result<bool, Box<dyn Error>> {
        let books = self.books;
        let wait = async {
            loop {
                let row = books.db.query_one(WAITS, &[]).await?;
                if row.try_get(0)? && row.try_get::<_, i64>(1)? == 2 {
                    // Long enough for a lock without a fence to be acquired.
                    sleep(Duration::from_secs(1)).await;
                    return Ok(());
                }
                sleep(TICK).await;
            }
        };
        let waits: Result<(), tokio_postgres::Error> = tokio::select! {
            done = self.until([1, 2], DONE) => return done.map(|()| true),
            waits = wait => waits,
        };
        waits?;
        self.print(
            LATE,
            "has lost its lease; the others wait for its transaction",
        );
        Ok(false)
    }

    /// Prints lines until each of `tellers` has printed one that ends with `end`.
    async fn until<const N: usize>(
        &mut self,
        tellers: [usize; N],
        end: &str,
    ) -> Result<(), Box<dyn Error>> {
        let mut missing = tellers.to_vec();
        while !missing.is_empty() {
            let said = timeout(LIMIT, self.said.recv()).await;
            let said = said.map_err(|_| format!("no line for {LIMIT:?}"))?;
            let Said { by, text } = said.ok_or("all processes have ended")?;
            let text = text.ok_or_else(|| format!("`{}` ended unexpectedly", NAMES[by]))?;
            self.print(by, &text);
            self.refused += usize::from(text.starts_with(REFUSED));
            if text.ends_with(end) {
                missing.retain(|it| *it != by);
            }
        }
        Ok(())
    }

    fn print(&self, by: usize, text: &str) {
        let at = self.begin.elapsed().as_secs_f64();
        println!("  {at:>5.2} s  {:<5}  {text}", NAMES[by]);
    }
}
