use dlock::KeyPart;

#[derive(KeyPart)]
#[key_part(crate = "dlock")]
struct Order {
    id: u64,
}

fn main() {}
