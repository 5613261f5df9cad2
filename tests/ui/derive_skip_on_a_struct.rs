use dlock::KeyPart;

#[derive(KeyPart)]
#[key_part(skip)]
struct Order {
    id: u64,
}

fn main() {}
