use dlock::KeyPart;

#[derive(KeyPart)]
enum State {
    New,
    #[key_part(rename = "")]
    InTransit,
}

fn main() {}
