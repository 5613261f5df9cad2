#![allow(dead_code, unused_imports, unused_variables)]

mod settle;
mod restock;
mod charge;
mod report;
mod import;
mod rename;
mod transfer;
mod expire;
mod shop;

use std::{env, error::Error, fmt::Debug, pin::Pin};

async fn answer<T: Debug>(jobs: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) {
    for job in jobs {
        println!("{:?}", job.await);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).ok_or("which store?")?;
    let text = env::args().nth(2).ok_or("which number?")?;
    let number: u64 = text.parse()?;
    let locks = dlock::install(dlock::LockManager::connect(&url).await?)?;
    let shop = shop::Shop::new(text.clone(), locks.clone());
    answer(settle::all(&shop, number, &text)).await;
    answer(restock::all(&shop, number, &text)).await;
    answer(charge::all(&shop, number, &text)).await;
    answer(report::all(&shop, number, &text)).await;
    answer(import::all(&shop, number, &text)).await;
    answer(rename::all(&shop, number, &text)).await;
    answer(transfer::all(&shop, number, &text)).await;
    answer(expire::all(&shop, number, &text)).await;
    Ok(())
}
