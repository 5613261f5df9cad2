//! Takes turns with another process by the locks of the crate `distributed`, as they are by default.
//!
//! Arguments: the URL of a database and the number of the process. Each line of the input is `turns hold_us think_us`,
//! and is answered with a list of the turns: when each began and ended, in ns of `CLOCK_MONOTONIC`.

use std::error::Error;
use std::io::{self, BufRead};
use std::time::Duration;

use distributed::{Lock, LockManager, PostgresLockManager};
use rustix::time::{ClockId, clock_gettime};
use sqlx::postgres::PgPoolOptions;
use tokio::time::sleep;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Failure> {
    let url = std::env::args().nth(1).ok_or("the URL is missing")?;
    let pool = PgPoolOptions::new().connect(&url).await?;
    // Two processes that create one table at once can refuse each other.
    if std::env::args().nth(2).as_deref() == Some("0") {
        PostgresLockManager::migrate(&pool).await?;
    }
    let lock = PostgresLockManager::new(pool).get_lock("turn")?;
    println!("READY");
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [turns, hold, think] = words[..] else {
            return Err(format!("`{line}` is not `turns hold_us think_us`").into());
        };
        let mut taken = Vec::new();
        for _ in 0..turns {
            lock.lock().await?;
            let begun = now();
            sleep(Duration::from_micros(hold)).await;
            let ended = now();
            lock.unlock().await?;
            taken.push([begun, ended]);
            sleep(Duration::from_micros(think)).await;
        }
        println!("{}", serde_json::to_string(&taken)?);
    }
    Ok(())
}

/// Nanoseconds of `CLOCK_MONOTONIC`, which all processes share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("this clock starts at zero")
}
