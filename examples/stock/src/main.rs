//! Two sellers sell the last item of a stock in etcd. One of them sleeps through its lease between its read and its
//! write. With the comparison, etcd refuses the late write. Without it, the item is sold twice.
//!
//! ```text
//! etcd &
//! cargo run -p stock -- etcd://127.0.0.1:2379
//! cargo run -p stock -- etcd://127.0.0.1:2379 --without-compare
//! ```
//!
//! `sell` is the part that a service would copy: the attribute, `lease.compare()`, and the transaction. `stock` has the
//! requests to etcd. A service uses its own client for them, such as the crate `etcd-client`.

mod stock;

use std::{error::Error, process::ExitCode};

use clap::Parser;
use dlock::{LockError, LockManager, distributed_lock};
use dlock_etcd::{Compare, CompareError, Etcd};
use tokio::sync::oneshot;

use crate::stock::{Stock, StockError};

/// Sells the last item of a stock in etcd by two sellers. Exits with 1 if it is sold twice.
#[derive(Debug, Parser)]
#[command(name = "stock")]
struct Cli {
    /// The URL of etcd with one member, such as `etcd://127.0.0.1:2379`.
    url: String,
    /// Write without the comparison, to show the late write.
    #[arg(long)]
    without_compare: bool,
}

#[derive(Debug, thiserror::Error)]
enum SaleError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Compare(#[from] CompareError),
    #[error(transparent)]
    Stock(#[from] StockError),
    #[error("the lease has ended; etcd has refused the write")]
    Refused,
}

/// The sleep of a process.
struct Nap {
    begins: oneshot::Sender<()>,
    ends: oneshot::Receiver<()>,
}

impl Nap {
    async fn sleep(self) {
        drop(self.begins);
        // The end of the other one is that of the nap, whatever it says.
        drop(self.ends.await);
    }
}

/// One process that sells.
struct Seller {
    locks: LockManager,
    stock: Stock,
    compares: bool,
}

impl Seller {
    /// Sells one item. Returns `false` if none is left.
    ///
    /// `on_lost = finish`: the transaction decides whether the lease was held. `renew = false` stands for a process that is
    /// paused: its lease ends while it sleeps.
    #[distributed_lock(
        key = "stock:<item>", ttl = "4s", wait = "1m", renew = false, lease = lease, on_lost = finish, manager = self.locks
    )]
    async fn sell(&self, item: &str, nap: Option<Nap>) -> Result<bool, SaleError> {
        let held = lease.compare()?;
        let left = self.stock.left(item).await?;
        if left == 0 {
            return Ok(false);
        }
        if let Some(nap) = nap {
            nap.sleep().await;
        }
        let conditions = if self.compares { &held[..] } else { &[] };
        if self.stock.set(item, left - 1, conditions).await? {
            Ok(true)
        } else {
            Err(SaleError::Refused)
        }
    }
}

async fn seller(cli: &Cli, stock: &Stock) -> Result<Seller, Box<dyn Error>> {
    let locks = LockManager::builder().scheme("etcd", Etcd);
    Ok(Seller {
        locks: locks.connect(&cli.url).await?,
        stock: stock.clone(),
        compares: !cli.without_compare,
    })
}

async fn run(cli: &Cli) -> Result<ExitCode, Box<dyn Error>> {
    let stock = Stock::new(&cli.url)?;
    let (late, prompt) = (seller(cli, &stock).await?, seller(cli, &stock).await?);
    let item = format!("lamp-{}", std::process::id());
    stock.set(&item, 1, &[]).await?;
    println!("1 item is left");
    let (begins, begun) = oneshot::channel();
    let (end, ends) = oneshot::channel();
    let sleeping = late.sell(&item, Some(Nap { begins, ends }));
    let awake = async {
        // The sleeper is the first. The other one waits for the end of its lease, and the sleeper for the sale.
        drop(begun.await);
        let sale = prompt.sell(&item, None).await;
        drop(end);
        sale
    };
    let (sleeping, awake) = tokio::join!(sleeping, awake);
    let mut sold = 0;
    for (name, sale) in [("prompt", awake), ("late", sleeping)] {
        match sale {
            Ok(true) => {
                sold += 1;
                println!("{name}: sold it");
            }
            Ok(false) => println!("{name}: none is left"),
            Err(error) => println!("{name}: {error}"),
        }
    }
    stock.forget(&item).await?;
    println!("sold {sold} of 1");
    Ok(if sold == 1 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    run(&cli).await.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
