use dlock::KeyPart;

#[derive(KeyPart)]
struct Order {
    #[key_part(crate = dlock)]
    id: u64,
}

fn main() {}
