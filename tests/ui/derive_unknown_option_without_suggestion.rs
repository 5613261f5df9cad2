use dlock::KeyPart;

#[derive(KeyPart)]
struct Order {
    #[key_part(default)]
    id: u64,
}

fn main() {}
