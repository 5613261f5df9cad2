use dlock::KeyPart;

#[derive(KeyPart)]
#[key_part(rename_all = "lowercase")]
enum Method {
    HttpGet,
    HTTPGet,
}

fn main() {}
