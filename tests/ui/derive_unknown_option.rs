use dlock::KeyPart;

#[derive(KeyPart)]
#[key_part(renameall = "snake_case")]
enum State {
    New,
    Paid,
}

fn main() {}
