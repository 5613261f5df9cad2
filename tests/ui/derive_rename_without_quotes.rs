use dlock::KeyPart;

#[derive(KeyPart)]
enum State {
    #[key_part(rename = fresh)]
    New,
    Paid,
}

fn main() {}
