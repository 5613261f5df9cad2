//! A worker process: handles all webhooks with several tasks.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::LockManager;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    error::Error,
    input::{self, Order},
    ledger::Ledger,
    message::{Message, Tally},
    settle::{Desk, Section, SettleError, settle, settle_unlocked},
};

/// The pause before an order is tried again after its lease was lost.
const AFTER_A_LOSS: Duration = Duration::from_secs(1);

/// The arguments of a worker.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    #[arg(long)]
    pub(crate) number: usize,
    #[arg(long)]
    pub(crate) tasks: usize,
    #[arg(long)]
    pub(crate) input: PathBuf,
    #[arg(long)]
    pub(crate) ledger: PathBuf,
    /// The namespace of the locks. Without it, the worker does not lock.
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// From this webhook on, stop in the first call that settles an order.
    #[arg(long)]
    pub(crate) stall_at: Option<usize>,
}

pub(crate) async fn run(args: WorkerArgs) -> Result<(), Error> {
    let locked = args.namespace.is_some();
    if let Some(namespace) = &args.namespace {
        let builder = LockManager::builder().application("orders");
        dlock::install(builder.namespace(namespace).connect_env().await?)?;
    }

    let mut webhooks = input::read(&args.input)?;
    input::shuffle(&mut webhooks, args.number as u64);
    let webhooks = Arc::new(webhooks);
    let next = Arc::new(AtomicUsize::new(0));
    let desk = Arc::new(Desk {
        worker: args.number,
        ledger: Ledger::new(&args.ledger),
        stall: AtomicBool::new(false),
    });

    let mut tasks: JoinSet<Result<Tally, Error>> = JoinSet::new();
    for _ in 0..args.tasks {
        let (webhooks, next, desk) = (webhooks.clone(), next.clone(), desk.clone());
        tasks.spawn(async move {
            let mut tally = Tally::default();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(order) = webhooks.get(index) else {
                    return Ok(tally);
                };
                if args.stall_at == Some(index) {
                    desk.stall.store(true, Ordering::SeqCst);
                }
                handle(order, &desk, locked, &mut tally).await?;
            }
        });
    }
    let mut total = Tally::default();
    while let Some(tally) = tasks.join_next().await {
        total.add(tally??);
    }

    // No call is running. This waits until the last locks are released.
    total.unreleased = dlock::shutdown(Duration::from_secs(5)).await.unreleased;
    println!("{}", Message::Done(total));
    Ok(())
}

/// Settles one order, and repeats the call after errors that may pass.
async fn handle(order: &Order, desk: &Desk, locked: bool, tally: &mut Tally) -> Result<(), Error> {
    // A service answers the webhook with an error instead, and the provider sends it again.
    let mut attempts_left = 3;
    loop {
        let section = if locked {
            settle(order, desk, Instant::now()).await
        } else {
            settle_unlocked(order, desk).await
        };
        let source = match section {
            Ok(Section { waited, settled }) => {
                tally.waits.push(waited);
                tally.settled += usize::from(settled);
                return Ok(());
            }
            Err(error) => error,
        };
        let retry_after = match &source {
            SettleError::Lock(error) if error.is_busy() => {
                tally.busy += 1;
                error.retry_after()
            }
            SettleError::Lock(error) => {
                tally.errors += 1;
                eprintln!("worker {}: {error}", desk.worker);
                // A call skips an order that is settled, so a lost call may be repeated.
                let repeated = error.is_lost().then_some(AFTER_A_LOSS);
                error.retry_after().or(repeated)
            }
            SettleError::Ledger(_) => None,
        };
        attempts_left -= 1;
        match retry_after {
            Some(pause) if attempts_left > 0 => sleep(pause).await,
            _ => {
                let order = order.id.clone();
                return Err(Error::Settle { order, source });
            }
        }
    }
}
