use dlock::KeyPart;

#[derive(KeyPart)]
struct Order {
    #[key_part(rename = "number")]
    id: u64,
}

fn main() {}
