//! Settles order 42 in a database that compares fencing tokens, as the page "A fencing column" shows it.

use std::{env, error::Error, time::Duration};

use dlock::{LockManager, distributed_lock};
use sqlx::SqlitePool;

#[distributed_lock(key = "order:<id>", ttl = "5s", wait = "1m", on_lost = finish, lease = lease)]
async fn settle(id: i64, work: Duration, database: &SqlitePool) -> Result<(), Box<dyn Error>> {
    let token = lease.fencing_token().to_i64();
    println!("order {id}: settling with token {token}");
    tokio::time::sleep(work).await; // a slow payment service
    let update = "UPDATE orders SET state = 'settled', fence = $1 WHERE id = $2 AND fence <= $1";
    let update = sqlx::query(update).bind(token).bind(id);
    if update.execute(database).await?.rows_affected() == 0 {
        println!("order {id}: refused, a later holder has written");
    } else {
        println!("order {id}: settled");
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let seconds = env::args().nth(1).map_or(Ok(20), |it| it.parse())?;
    let database = SqlitePool::connect("sqlite:orders.db?mode=rwc").await?;
    let table =
        "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT, fence INTEGER)";
    sqlx::query(table).execute(&database).await?;
    let order = "INSERT OR IGNORE INTO orders VALUES (42, 'open', 0)";
    sqlx::query(order).execute(&database).await?;

    dlock::install(LockManager::connect_env().await?)?;
    println!("order 42: waiting for the lock");
    settle(42, Duration::from_secs(seconds), &database).await?;
    Ok(())
}
