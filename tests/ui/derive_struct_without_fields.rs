use dlock::KeyPart;

#[derive(KeyPart)]
struct Marker;

fn main() {}
