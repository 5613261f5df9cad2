use dlock::KeyPart;

#[derive(KeyPart)]
#[key_part(rename_all = "Title Case")]
enum State {
    New,
    Paid,
}

fn main() {}
