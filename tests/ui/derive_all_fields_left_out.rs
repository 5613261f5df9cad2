use std::marker::PhantomData;

use dlock::KeyPart;

#[derive(KeyPart)]
struct Order<T> {
    #[key_part(skip)]
    lines: Vec<u64>,
    kind: PhantomData<T>,
}

fn main() {}
