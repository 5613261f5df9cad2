use dlock::KeyPart;

#[derive(KeyPart)]
enum State {
    #[key_part(skip)]
    New,
    Paid,
}

fn main() {}
