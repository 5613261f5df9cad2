use dlock::KeyPart;

#[derive(KeyPart)]
#[key_part(rename_all)]
enum State {
    New,
    Paid,
}

fn main() {}
