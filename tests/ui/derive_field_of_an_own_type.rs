use dlock::KeyPart;

#[derive(KeyPart)]
struct Order {
    shop: Shop,
    id: u64,
}

struct Shop(u32);

fn main() {}
