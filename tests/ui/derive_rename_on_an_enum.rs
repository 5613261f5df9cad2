use dlock::KeyPart;

#[derive(KeyPart)]
#[key_part(rename = "status")]
enum State {
    New,
    Paid,
}

fn main() {}
