//! Three processes transfer money between accounts in PostgreSQL. One of them sleeps through its lease in the middle of
//! a transaction, twice. With the fence the books balance, without it they do not.
//!
//! ```text
//! cargo run -p ledger
//! cargo run -p ledger -- --without-fence
//! DATABASE_URL=postgres://user@host/database cargo run -p ledger
//! ```
//!
//! `transfer` is the part that a service would copy: the attribute, the transaction, and `lease.fence(&tx)`. The other
//! modules are the test around it: `books` has the tables and their audit, `stage` starts and pauses the processes,
//! and `server` starts a PostgreSQL server if `DATABASE_URL` names none.
//!
//! The process `late` reads two balances in a transaction, sleeps, and then writes the new balances as numbers. The
//! isolation level is `READ COMMITTED`, so PostgreSQL itself does not refuse such a write.
//!
//! 1. First, `late` sleeps before it calls `fence`. Its lease ends, and the others change the same accounts. The fence
//!    then refuses the transaction, and `late` repeats the transfer. Here the process itself sees that its deadline has
//!    passed. Without that, the row of the lease would be missing.
//! 2. Then, `late` sleeps after `fence` has answered. Its lease ends again, but no other process gets the accounts
//!    before the transaction has ended. The fence refuses nothing, because nothing was lost.
//!
//! Without the fence, `late` overwrites all that the others have done while it slept.

mod books;
mod server;
mod stage;
mod teller;
mod transfer;

use std::{error::Error, process::ExitCode};

use clap::Parser;

use crate::{books::Books, server::Server, stage::Stage, transfer::TTL};

/// Transfers money while one process sleeps in the middle of its transactions. Exits with 1 if the books are wrong.
///
/// The server is that of `DATABASE_URL`, which is not a pooler. Without it, the program starts a server of its own.
#[derive(Debug, Parser)]
#[command(name = "ledger")]
struct Cli {
    /// Do not check leases in transactions, to show lost updates.
    #[arg(long)]
    without_fence: bool,
    /// Be a process that transfers, over the tables in this schema.
    #[arg(long, hide = true)]
    teller_in: Option<String>,
}

async fn run(fenced: bool) -> Result<ExitCode, Box<dyn Error>> {
    let server = Server::named_or_own().await?;
    let books = Books::open(server.url()).await?;
    let how = if fenced { "with" } else { "without" };
    println!("3 accounts, 3 processes, ttl {TTL:?}, {how} the fence");
    let shown = tokio::select! {
        shown = show(&server, &books, fenced) => shown,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    // The processes have ended, whatever happened.
    books.remove().await?;
    shown
}

async fn show(server: &Server, books: &Books, fenced: bool) -> Result<ExitCode, Box<dyn Error>> {
    let mut stage = Stage::open(server.url(), books, fenced)?;
    stage.sleep_before_the_fence().await?;
    stage.sleep_after_the_fence().await?;
    let refused = stage.close().await?;
    let audit = books.audit().await?;
    print!("{audit}");
    let transfers = audit.transfers;
    if fenced {
        println!("{transfers} transfers, {refused} refused by the fence and repeated");
    } else {
        println!("{transfers} transfers without the fence");
    }
    if audit.is_right() {
        println!("the books balance");
        return Ok(ExitCode::SUCCESS);
    }
    println!("WRONG: {}", audit.fault());
    Ok(ExitCode::FAILURE)
}

// The thread of this function may block: those of the runtime go on.
#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let fenced = !cli.without_fence;
    let done = match cli.teller_in {
        Some(schema) => teller::run(&schema, fenced).await,
        None => run(fenced).await,
    };
    done.unwrap_or_else(|error| {
        eprintln!("ledger: {error}");
        ExitCode::FAILURE
    })
}
