use dlock::KeyPart;

#[derive(KeyPart)]
struct Order {
    id: u64,
    lines: Vec<Option<u64>>,
}

fn main() {}
