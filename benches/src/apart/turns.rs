//! A process that takes turns with another one.
//!
//! It reads lines `turns hold_us think_us`, and answers each with a list of its turns: when each began and ended, in ns
//! of `CLOCK_MONOTONIC`. Programs of other libraries do the same.

use std::io::{self, BufRead};
use std::time::Duration;

use tokio::time::sleep;

use crate::Failure;
use crate::clock::now;

/// A way to pass a turn from one process to the other.
pub(crate) trait TurnsByWay {
    /// Waits for the turn.
    async fn enter(&mut self) -> Result<(), Failure>;

    /// Passes the turn on.
    async fn leave(&mut self) -> Result<(), Failure>;
}

/// Takes turns as often as the input says.
pub(crate) async fn take_turns(mut way: impl TurnsByWay) -> Result<(), Failure> {
    println!("READY");
    // There is nothing else to do meanwhile.
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [turns, hold, think] = words[..] else {
            return Err(format!("`{line}` is not `turns hold_us think_us`").into());
        };
        let mut taken = Vec::new();
        for _ in 0..turns {
            way.enter().await?;
            let begun = now();
            sleep(Duration::from_micros(hold)).await;
            let ended = now();
            way.leave().await?;
            taken.push([begun, ended]);
            sleep(Duration::from_micros(think)).await;
        }
        println!("{}", serde_json::to_string(&taken)?);
    }
    Ok(())
}
