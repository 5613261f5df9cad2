use dlock::KeyPart;

#[derive(KeyPart)]
struct Order {
    id: u64,
    #[key_part(skip)]
    #[key_part(skip)]
    lines: Vec<u64>,
}

fn main() {}
