use dlock::KeyPart;

#[derive(KeyPart)]
struct Order {
    id: u64,
    #[key_part(skip = true)]
    lines: u64,
}

fn main() {}
