use dlock::KeyPart;

#[derive(KeyPart)]
#[key_part(rename_all = "snake_case" crate = dlock)]
enum State {
    New,
    Paid,
}

fn main() {}
