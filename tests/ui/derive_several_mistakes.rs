// mistakes: 8
use dlock::{KeyPart, LockError, distributed_lock};

#[derive(KeyPart)]
#[key_part(rename_all = "camel_case", skip)]
enum State {
    New,
    #[key_part(renam = "paid")]
    Paid,
    #[key_part(rename = "New")]
    Fresh,
    #[key_part(rename = "")]
    Sent(u64),
}

#[derive(KeyPart)]
struct Nothing {
    #[key_part(skip, skipped)]
    lines: Vec<u64>,
}

// Uses of the types are no further mistakes.
#[distributed_lock(key = "state:<state>:<nothing>")]
async fn step(state: State, nothing: Nothing) -> Result<State, LockError> {
    Ok(State::Sent(1))
}

fn main() {}
