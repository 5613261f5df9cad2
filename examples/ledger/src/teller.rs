//! A process that transfers. It reads orders from its input, and writes its part of the time line to its output.

use std::{env, error::Error, io, process::ExitCode, str::FromStr, time::Duration};

use dlock::LockManager;
use dlock_postgres::Postgres;

use crate::{
    books,
    server::DATABASE_URL,
    transfer::{Desk, Point, money, transfer},
};

/// The end of the line after which a process is paused.
pub(crate) const PAUSES: &str = ", and pauses";
/// The begin of the line of a transfer that the fence has refused.
pub(crate) const REFUSED: &str = "is refused: ";
/// The end of the line after an order.
pub(crate) const DONE: &str = ": done";

/// A number of equal transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) from: i32,
    pub(crate) to: i32,
    pub(crate) cents: i64,
    pub(crate) times: u32,
    pub(crate) sleeps: Option<Point>,
}

impl Order {
    /// The order as a line.
    pub(crate) fn to_line(self) -> String {
        let sleeps = match self.sleeps {
            None => "never",
            Some(Point::BeforeTheFence) => "before",
            Some(Point::AfterTheFence) => "after",
        };
        let Self {
            from,
            to,
            cents,
            times,
            ..
        } = self;
        format!("{from} {to} {cents} {times} {sleeps}\n")
    }
}

impl FromStr for Order {
    type Err = Box<dyn Error>;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let words: Vec<_> = line.split_whitespace().collect();
        let [from, to, cents, times, sleeps] = words[..] else {
            return Err(format!("`{line}` is not an order").into());
        };
        Ok(Self {
            from: from.parse()?,
            to: to.parse()?,
            cents: cents.parse()?,
            times: times.parse()?,
            sleeps: match sleeps {
                "never" => None,
                "before" => Some(Point::BeforeTheFence),
                "after" => Some(Point::AfterTheFence),
                other => return Err(format!("`{other}` is not a point").into()),
            },
        })
    }
}

/// Carries out orders until the input ends.
pub(crate) async fn run(schema: &str, fenced: bool) -> Result<ExitCode, Box<dyn Error>> {
    let url = env::var(DATABASE_URL)?;
    let locks = LockManager::builder()
        .scheme("postgres", Postgres)
        .scheme("postgresql", Postgres)
        .namespace(schema)
        .application("ledger")
        .connect(&*url);
    dlock::install(locks.await?)?;
    let mut desk = Desk {
        db: books::connect(&url, schema).await?,
        fenced,
        sleeps: None,
        sleep,
    };
    while let Some(line) = read()? {
        carry_out(line.parse()?, &mut desk).await?;
    }
    dlock::shutdown(Duration::from_secs(10)).await;
    Ok(ExitCode::SUCCESS)
}

async fn carry_out(order: Order, desk: &mut Desk) -> Result<(), Box<dyn Error>> {
    desk.sleeps = order.sleeps;
    let mut done = 0;
    while done < order.times {
        match transfer(order.from, order.to, order.cents, desk).await {
            Ok(()) => done += 1,
            Err(error) if error.is_too_late() => println!("{REFUSED}{error}"),
            Err(error) => return Err(error.into()),
        }
        desk.sleeps = None;
    }
    let Order {
        from, to, cents, ..
    } = order;
    let cents = money(cents);
    println!("has moved {cents} from account {from} to {to}, {done} times{DONE}");
    Ok(())
}

/// Blocks until the input has a line. The process is stopped meanwhile.
fn sleep(state: &str) {
    println!("{state}{PAUSES}");
    read().ok();
}

fn read() -> io::Result<Option<String>> {
    let mut line = String::new();
    let length = io::stdin().read_line(&mut line)?;
    Ok((length > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() {
        for sleeps in [
            None,
            Some(Point::BeforeTheFence),
            Some(Point::AfterTheFence),
        ] {
            let order = Order {
                from: 1,
                to: 2,
                cents: 2500,
                times: 3,
                sleeps,
            };
            assert_eq!(order.to_line().parse::<Order>().unwrap(), order);
        }
        assert!("1 2 3".parse::<Order>().is_err());
        assert!("1 2 3 4 sometimes".parse::<Order>().is_err());
    }
}
