use dlock::KeyPart;

#[derive(KeyPart)]
enum State {
    #[key_part(rename_all = "camelCase")]
    New,
    Paid,
}

fn main() {}
