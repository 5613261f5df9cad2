use dlock::KeyPart;

#[derive(KeyPart)]
#[key_part(rename_all = "camelCase")]
struct Order {
    id: u64,
}

fn main() {}
