//! Six buyers take one item each from a shared stock: first without a lock, then with one.
//!
//! ```text
//! cargo run --example quickstart
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --example quickstart
//! ```

use std::{
    error::Error,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use dlock::{ConnectError, LockError, LockManager, distributed_lock};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

const BUYERS: u32 = 6;
const IN_STOCK: u32 = 10;
const WORK: Duration = Duration::from_millis(60);

/// A stand-in for a database row. A read is safe and a write is safe. A read followed by a write that depends
/// on it is not.
struct Stock(AtomicU32);

/// The times and the values of one purchase.
struct Visit {
    entered: Instant,
    left: Instant,
    read: u32,
    wrote: u32,
}

async fn buy_unlocked(stock: &Stock) -> Visit {
    let entered = Instant::now();
    let read = stock.0.load(Ordering::SeqCst);
    // Stands for a payment or a call to another service. Other tasks run during any await.
    sleep(WORK).await;
    let wrote = read - 1;
    stock.0.store(wrote, Ordering::SeqCst);
    Visit {
        entered,
        left: Instant::now(),
        read,
        wrote,
    }
}

// At most one call per item runs this body, across all processes that use the same store. `<item>` is the
// argument. Calls for other items do not wait.
#[distributed_lock(key = "stock:<item>", ttl = "10s")]
async fn buy(item: &str, stock: &Stock) -> Result<Visit, LockError> {
    Ok(buy_unlocked(stock).await)
}

struct Run {
    asked: Instant,
    visits: Vec<Visit>,
    left_in_stock: u32,
}

async fn run(locked: bool) -> Result<Run, LockError> {
    let stock = Arc::new(Stock(AtomicU32::new(IN_STOCK)));
    let asked = Instant::now();
    let mut buyers = JoinSet::new();
    for _ in 0..BUYERS {
        let stock = Arc::clone(&stock);
        buyers.spawn(async move {
            if locked {
                buy("apple", &stock).await
            } else {
                Ok(buy_unlocked(&stock).await)
            }
        });
    }
    let visits: Result<Vec<_>, _> = buyers.join_all().await.into_iter().collect();
    let mut visits = visits?;
    visits.sort_by_key(|visit| visit.entered);
    let left_in_stock = stock.0.load(Ordering::SeqCst);
    Ok(Run {
        asked,
        visits,
        left_in_stock,
    })
}

impl Run {
    fn lost(&self) -> u32 {
        self.left_in_stock - (IN_STOCK - BUYERS)
    }

    fn lasted(&self) -> Duration {
        let ends = self.visits.iter().map(|visit| visit.left - self.asked);
        ends.max().unwrap_or_default()
    }

    /// One row per buyer, `column` of time per character.
    fn draw(&self, title: &str, column: Duration) {
        println!("{title}");
        for (row, visit) in self.visits.iter().enumerate() {
            let columns = |until: Instant| {
                let columns = (until - self.asked).as_micros() / column.as_micros().max(1);
                usize::try_from(columns).unwrap_or_default()
            };
            let waiting = columns(visit.entered);
            // At least one column, so that a short body stays visible beside a slow one.
            let inside = (columns(visit.left) - waiting).max(1);
            let line = format!("{}{}", "·".repeat(waiting), "█".repeat(inside));
            let (buyer, read, wrote) = (row + 1, visit.read, visit.wrote);
            println!("  buyer {buyer}  {line:<60}  read {read:>2}, wrote {wrote}");
        }
        let (left, lost) = (self.left_in_stock, self.lost());
        let expected = IN_STOCK - BUYERS;
        println!("  {left} left in stock, expected {expected}: {lost} of {BUYERS} updates lost\n");
    }
}

async fn quickstart() -> Result<ExitCode, Box<dyn Error>> {
    // A process installs one manager at start-up. The memory store locks within this process only, so a
    // service returns the error `NoUrl` instead.
    let manager = match LockManager::connect_env().await {
        Err(ConnectError::NoUrl) => LockManager::memory(),
        connected => connected?,
    };
    dlock::install(manager)?;

    let (unlocked, locked) = (run(false).await?, run(true).await?);
    // Refuses new calls, waits for running bodies, and releases every lock.
    dlock::shutdown(Duration::from_secs(5)).await;

    println!(
        "{BUYERS} buyers, {IN_STOCK} apples: each buyer reads the stock, works, and writes one less"
    );
    println!("(· waiting, █ working)\n");
    let column = unlocked.lasted().max(locked.lasted()) / 60;
    unlocked.draw("without a lock", column);
    locked.draw("with #[distributed_lock(key = \"stock:<item>\")]", column);
    println!("To share the lock between processes, use a server:");
    println!("  DLOCK_URL=redis://127.0.0.1:6379 cargo run --example quickstart");
    Ok(ExitCode::from(u8::from(locked.lost() > 0)))
}

// On one thread, all buyers read before the first one writes. Without a lock, every run then loses updates.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    quickstart().await.unwrap_or_else(|error| {
        eprintln!("quickstart: {error}");
        ExitCode::FAILURE
    })
}
