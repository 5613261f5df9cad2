use dlock::KeyPart;

#[derive(KeyPart)]
union Word {
    number: u32,
    bytes: [u8; 4],
}

fn is_key_part<T: KeyPart>() {}

fn main() {
    is_key_part::<Word>();
    let word = Word { number: 1 };
    drop(unsafe { (word.number, word.bytes) });
}
