use dlock::KeyPart;

#[derive(KeyPart)]
struct Amount(Option<f64>);

fn main() {}
