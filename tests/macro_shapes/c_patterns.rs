//! Patterns of arguments, and the names that a key may use.

use dlock::{KeyPart, PartWriter, distributed_lock};

use crate::{Result, assert_send, say, under};

/// C1: bindings.
mod c1 {
    use super::*;

    #[expect(clippy::toplevel_ref_arg, reason = "it is the case")]
    #[distributed_lock(key = "<plain>/<changed.len()>/<borrowed>/<whole.0>/<part>")]
    async fn bindings(
        plain: u8,
        mut changed: Vec<u8>,
        ref borrowed: String,
        ref whole @ (part, _): (u8, u8),
        ref mut exclusive: Vec<u8>,
    ) -> Result<(u8, usize, usize, u8)> {
        say("body");
        changed.push(plain);
        exclusive.push(part);
        Ok((
            plain,
            changed.len(),
            borrowed.len() + exclusive.len(),
            whole.1,
        ))
    }

    impl KeyPart for Length {
        fn write_part(&self, to: &mut PartWriter<'_>) {
            to.push_display(&self.0.len());
        }
    }
    struct Length(Vec<u8>);

    #[distributed_lock(key = "<changed>")]
    async fn of_a_type_of_the_users(mut changed: Length) -> Result<usize> {
        say("body");
        changed.0.push(1);
        Ok(changed.0.len())
    }

    #[tokio::test]
    async fn run() {
        let bindings = bindings(1, vec![], "b".to_owned(), (2, 3), vec![0]);
        let bound = under("1/0/b/2/2", assert_send(bindings)).await;
        assert_eq!(bound, Ok((1, 1, 3, 3)));
        let length = of_a_type_of_the_users(Length(vec![0, 0]));
        assert_eq!(under("2", assert_send(length)).await, Ok(3));
    }
}

/// C2: patterns of patterns; each name in them can be used.
mod c2 {
    use super::*;

    struct Path<T>(T);

    struct Order {
        id: u64,
        lines: Vec<u8>,
        name: &'static str,
    }

    enum Either {
        Left(u8),
        Right(u8),
    }

    #[distributed_lock(key = "<a>/<b>/<number>/<name>/<first>/<last>/<deep>/<either>/<borrowed>")]
    async fn many(
        (a, _): (u8, u8),
        Path((b, ..)): Path<(u32, u64, u8)>,
        Order {
            id: number,
            lines,
            ref name,
            ..
        }: Order,
        [first, .., last]: [u8; 4],
        Path(Path(((deep, _), _))): Path<Path<((char, u8), u8)>>,
        (Either::Left(either) | Either::Right(either)): Either,
        &borrowed: &u8,
    ) -> Result<usize> {
        say("body");
        let _ = (a, b, number, name, first, last, deep, either, borrowed);
        Ok(lines.len())
    }

    #[tokio::test]
    async fn run() {
        let order = Order {
            id: 3,
            lines: vec![1, 2],
            name: "n",
        };
        let many = many(
            (1, 0),
            Path((2, 0, 0)),
            order,
            [4, 0, 0, 5],
            Path(Path((('c', 0), 0))),
            Either::Right(6),
            &7,
        );
        assert_eq!(under("1/2/3/n/4/5/c/6/7", assert_send(many)).await, Ok(2));
        assert!(matches!(Either::Left(1), Either::Left(1)));
    }
}

/// C3: names with an underscore can be used, and make no lint fire.
mod c3 {
    #![deny(clippy::used_underscore_binding, clippy::no_effect_underscore_binding)]
    use super::*;

    #[distributed_lock(key = "<_named>/<_pair.0>/<_inner>", ttl = _ttl)]
    async fn underscores(
        _named: u8,
        _pair: (u8, u8),
        (_inner, _): (u8, u8),
        _: u8,
        _ttl: std::time::Duration,
    ) -> Result<u8> {
        say("body");
        Ok(1)
    }

    #[tokio::test]
    async fn run() {
        let ttl = std::time::Duration::from_secs(9);
        let underscores = underscores(1, (2, 0), (3, 0), 4, ttl);
        assert_eq!(under("1/2/3", underscores).await, Ok(1));
    }
}

/// C4: raw names, with and without their mark in the key.
mod c4 {
    use super::*;

    struct Order {
        r#type: u8,
    }

    impl Order {
        fn r#fn(&self) -> u8 {
            self.r#type + 1
        }
    }

    #[distributed_lock(key = "<type>/<r#fn>/<in.type>/<r#in.r#type>/<in.fn()>")]
    async fn raw(r#type: u8, r#fn: &str, r#in: Order) -> Result<u8> {
        say("body");
        let _ = r#fn;
        Ok(r#type + r#in.r#type)
    }

    // Not a keyword, and marked all the same.
    #[distributed_lock(key = "<id>")]
    async fn needlessly(r#id: u8) -> Result<u8> {
        say("body");
        Ok(id)
    }

    #[tokio::test]
    async fn run() {
        let raw = raw(1, "2", Order { r#type: 3 });
        assert_eq!(under("1/2/3/3/4", raw).await, Ok(4));
        assert_eq!(under("5", needlessly(5)).await, Ok(5));
    }
}

/// C5: names that another macro has brought in, which only those of the same origin can see.
mod c5 {
    use super::*;

    macro_rules! name_from_outside {
        ($id:ident) => {
            #[distributed_lock(key = "outside:<id>")]
            async fn name_from_outside($id: u8) -> Result<u8> {
                say("body");
                Ok($id)
            }
        };
    }
    name_from_outside!(id);

    macro_rules! key_from_outside {
        ($key:literal) => {
            #[distributed_lock(key = $key)]
            async fn key_from_outside(id: u8) -> Result<u8> {
                say("body");
                Ok(id)
            }
        };
    }
    key_from_outside!("inside:<id>");

    // `id` is two variables here, of which only one is the parameter.
    macro_rules! both {
        ($id:ident, $body:expr) => {
            #[distributed_lock(key = "both:<id>")]
            async fn both(id: u8) -> Result<(u8, u8)> {
                let $id = id + 1;
                $body;
                Ok((id, $id))
            }
        };
    }
    both!(id, say("body"));

    macro_rules! pattern {
        ($($field:ident),*; $option:ident = $lease:ident; $body:expr) => {
            #[distributed_lock(key = "fields:<a>/<b>", $option = $lease)]
            async fn pattern(($($field,)*): (u8, u8)) -> Result<String> {
                say("body");
                let _ = ($($field,)*);
                Ok($body)
            }
        };
    }
    pattern!(a, b; lease = proof; proof.key().to_string());

    macro_rules! through {
        ($name:ident, $($rest:tt)*) => { through!(@ $name, $($rest)*); };
        (@ $name:ident, $id:ident: $ty:ty, $($value:tt)*) => {
            #[distributed_lock(key = "through:<id>", ttl = $($value)*)]
            async fn $name($id: $ty) -> Result<$ty> {
                say("body");
                Ok($id)
            }
        };
    }
    through!(nested, id: u64, std::time::Duration::from_secs(id));

    // All of it, the name of the lease included, is this macro's.
    macro_rules! everything_inside {
        () => {
            #[distributed_lock(key = "all:<id>", lease = lease)]
            async fn everything_inside(id: u8) -> Result<String> {
                say("body");
                Ok(format!("{id} {}", lease.key()))
            }
        };
    }
    everything_inside!();

    #[tokio::test]
    async fn run() {
        assert_eq!(under("outside:3", name_from_outside(3)).await, Ok(3));
        assert_eq!(under("inside:3", key_from_outside(3)).await, Ok(3));
        assert_eq!(under("both:3", both(3)).await, Ok((3, 4)));
        let fields = under("fields:1/2", pattern((1, 2))).await;
        assert_eq!(fields, Ok("fields:1/2".to_owned()));
        assert_eq!(under("through:7", nested(7)).await, Ok(7));
        let all = under("all:4", everything_inside(4)).await;
        assert_eq!(all, Ok("4 all:4".to_owned()));
    }
}

/// C6: a name that is used twice.
mod c6 {
    use super::*;

    #[distributed_lock(key = "<id>:<id>/<id>")]
    async fn twice(id: u8) -> Result<u8> {
        say("body");
        Ok(id)
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("1:1/1", twice(1)).await, Ok(1));
    }
}
