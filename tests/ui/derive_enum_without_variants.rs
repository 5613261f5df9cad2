use dlock::KeyPart;

#[derive(KeyPart)]
enum Never {}

fn main() {}
