//! The key template and its literal.

use dlock::{InvalidKeyReason, LockError, LockKey, distributed_lock};

use crate::{Fault, Result, record, say, under};

/// L1: every way to write a literal.
mod l1 {
    use super::*;

    #[distributed_lock(key = r"raw\:<id>")]
    async fn raw(id: u8) -> Result<u8> {
        say("body");
        Ok(id)
    }

    #[distributed_lock(key = r##"raw"#:<id>"##)]
    async fn raw_with_marks(id: u8) -> Result<u8> {
        say("body");
        Ok(id)
    }

    #[distributed_lock(key = "\"\\\x61\u{e9}\u{1F512}:<\u{69}d>")]
    async fn escaped(id: u8) -> Result<u8> {
        say("body");
        Ok(id)
    }

    #[distributed_lock(key = "several:\
               lines:\
               <id>")]
    async fn continued(id: u8) -> Result<u8> {
        say("body");
        Ok(id)
    }

    #[distributed_lock(key = "größe:<größe>")]
    async fn not_ascii(größe: u8) -> Result<u8> {
        say("body");
        Ok(größe)
    }

    // A name of letters that need signs between them, and one whose accent is a letter of its own.
    #[distributed_lock(key = "ग्राहक:<ग्राहक>/<cafe\u{301}>")]
    async fn with_signs(ग्राहक: u8, café: u8) -> Result<u8> {
        say("body");
        Ok(ग्राहक + café)
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under(r"raw\:1", raw(1)).await, Ok(1));
        assert_eq!(under("raw\"#:1", raw_with_marks(1)).await, Ok(1));
        assert_eq!(under("\"\\aé🔒:1", escaped(1)).await, Ok(1));
        assert_eq!(under("several:lines:1", continued(1)).await, Ok(1));
        assert_eq!(under("größe:1", not_ascii(1)).await, Ok(1));
        assert_eq!(under("ग्राहक:1/2", with_signs(1, 2)).await, Ok(3));
    }
}

/// L3: a literal that is another macro's.
mod l3 {
    use super::*;

    macro_rules! fixed {
        ($($name:ident: $key:literal;)*) => {$(
            #[distributed_lock(key = $key)]
            async fn $name(id: u8) -> Result<u8> {
                say("body");
                Ok(id)
            }
        )*};
    }
    fixed! {
        plain: "plain:<id>";
        raw: r#"raw:<id>"#;
        escaped: "esc\x61ped:<id>";
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("plain:1", plain(1)).await, Ok(1));
        assert_eq!(under("raw:1", raw(1)).await, Ok(1));
        assert_eq!(under("escaped:1", escaped(1)).await, Ok(1));
    }
}

/// L4: angle brackets as they are.
mod l4 {
    use super::*;

    #[distributed_lock(key = "<<<id>>>:<<>>/a<<b")]
    async fn brackets(id: u8) -> Result<u8> {
        say("body");
        Ok(id)
    }

    /// Names of parameters as they are, in what would else be placeholders of another notation.
    #[distributed_lock(key = "<'id'>:<<<'id'>>>/$<'id'>:<id>")]
    async fn names(id: u8) -> Result<u8> {
        say("body");
        Ok(id)
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("<1>:<>/a<b", brackets(1)).await, Ok(1));
        assert_eq!(under("id:<id>/$id:1", names(1)).await, Ok(1));
    }
}

/// L5: one lock for all calls, whatever the arguments.
mod l5 {
    use super::*;

    #[distributed_lock(key = "global report")]
    async fn global(id: u8) -> Result<u8> {
        say("body");
        Ok(id)
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("global report", global(1)).await, Ok(1));
        assert_eq!(under("global report", global(2)).await, Ok(2));
    }
}

/// L6: values that make no key; nobody is asked then, and the body does not run.
mod l6 {
    use super::*;

    #[distributed_lock(key = "name:<name>")]
    async fn named(name: &str) -> Result<usize> {
        say("body");
        Ok(name.len())
    }

    #[tokio::test]
    async fn run() {
        let long = "x".repeat(LockKey::MAX_LEN);
        let escaped = "/".repeat(LockKey::MAX_LEN / 3);
        for (name, fault) in [
            ("", InvalidKeyReason::EmptyPart),
            (&long, InvalidKeyReason::TooLong),
            (&escaped, InvalidKeyReason::TooLong),
        ] {
            let (output, events) = record(named(name)).await;
            let expected = LockError::InvalidKey {
                key: "name:<name>".to_owned(),
                reason: fault,
            };
            assert_eq!(output, Err(Fault::Lock(expected)));
            assert_eq!(events, [""; 0]);
        }
        let longest = "x".repeat(LockKey::MAX_LEN - "name:".len());
        let output = under(&format!("name:{longest}"), named(&longest)).await;
        assert_eq!(output, Ok(longest.len()));
    }
}

/// L7: no value can look like two, or like text.
mod l7 {
    use super::*;

    #[distributed_lock(key = "<a>:<b>")]
    async fn pair(a: &str, b: &str) -> Result<usize> {
        say("body");
        Ok(a.len() + b.len())
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("x%3Ay:z", pair("x:y", "z")).await, Ok(4));
        assert_eq!(under("x:y%3Az", pair("x", "y:z")).await, Ok(4));
        assert_eq!(under("%253A:%7B%0A%7D", pair("%3A", "{\n}")).await, Ok(6));
        assert_eq!(under("é:🔒", pair("é", "🔒")).await, Ok(6));
    }
}
