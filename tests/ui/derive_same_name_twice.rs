use dlock::KeyPart;

#[derive(KeyPart)]
#[key_part(rename_all = "lowercase")]
enum Colour {
    Red,
    #[key_part(rename = "red")]
    Rot,
}

fn main() {}
