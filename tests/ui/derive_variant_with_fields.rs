use dlock::KeyPart;

#[derive(KeyPart)]
enum Owner {
    Nobody,
    Person(u64),
}

fn is_key_part<T: KeyPart>() {}

fn main() {
    is_key_part::<Owner>();
}
