use dlock::KeyPart;

#[derive(KeyPart)]
#[key_part(rename_all = "snakecase")]
enum State {
    New,
    Paid,
}

fn main() {}
