//! Receivers, with `self` in the key.

use std::{pin::Pin, rc::Rc, sync::Arc};

use dlock::distributed_lock;

use crate::{Result, assert_send, say, under};

/// Every form that a receiver can have.
mod d0 {
    use super::*;

    #[derive(Clone)]
    struct Shop {
        name: String,
        orders: u32,
    }

    impl Shop {
        #[distributed_lock(key = "shop:<self.name>")]
        async fn by_value(self) -> Result<String> {
            say("body");
            Ok(self.name)
        }

        #[distributed_lock(key = "shop:<self.name>")]
        async fn by_changed_value(mut self) -> Result<Self> {
            say("body");
            self.orders += 1;
            Ok(self)
        }

        #[distributed_lock(key = "shop:<self.name>/<id>")]
        async fn by_ref(&self, id: u64) -> Result<(&str, u64)> {
            say("body");
            Ok((&self.name, id))
        }

        #[distributed_lock(key = "shop:<self.orders>")]
        async fn by_mut(&mut self) -> Result<&mut u32> {
            say("body");
            self.orders += 1;
            Ok(&mut self.orders)
        }

        #[distributed_lock(key = "shop:<self.name>")]
        async fn by_named_lifetime<'a>(&'a self, other: &str) -> Result<&'a str> {
            say("body");
            let _ = other;
            Ok(&self.name)
        }

        #[distributed_lock(key = "shop:<self.name>")]
        async fn by_box(self: Box<Self>) -> Result<Box<Self>> {
            say("body");
            Ok(self)
        }

        #[distributed_lock(key = "shop:<self.name>")]
        async fn by_rc(self: Rc<Self>) -> Result<usize> {
            say("body");
            Ok(Rc::strong_count(&self))
        }

        #[distributed_lock(key = "shop:<self.name>")]
        async fn by_arc(self: Arc<Self>) -> Result<usize> {
            say("body");
            Ok(Arc::strong_count(&self))
        }

        #[distributed_lock(key = "shop:<self.name>")]
        async fn by_ref_to_arc(self: &Arc<Self>) -> Result<Arc<Self>> {
            say("body");
            Ok(Arc::clone(self))
        }

        #[distributed_lock(key = "shop:<self.name>")]
        async fn by_pin(self: Pin<&mut Self>) -> Result<u32> {
            say("body");
            Ok(self.orders)
        }

        #[distributed_lock(key = "shop:<self.name>")]
        async fn by_changed_ref(mut self: &Self, other: &Self) -> Result<String> {
            say("body");
            if other.orders > self.orders {
                self = other;
            }
            Ok(self.name.clone())
        }

        #[distributed_lock(key = "shop:<shop.name>")]
        async fn without(shop: &Self) -> Result<u32> {
            say("body");
            Ok(shop.orders)
        }
    }

    #[tokio::test]
    async fn run() {
        let mut shop = Shop {
            name: "nord".to_owned(),
            orders: 1,
        };
        let more = Shop {
            name: "süd".to_owned(),
            orders: 9,
        };
        let key = "shop:nord";
        let by_ref = assert_send(shop.by_ref(5));
        assert_eq!(under("shop:nord/5", by_ref).await, Ok(("nord", 5)));
        *under("shop:1", assert_send(shop.by_mut())).await.unwrap() += 1;
        assert_eq!(shop.orders, 3);
        assert_eq!(under(key, shop.by_named_lifetime("x")).await, Ok("nord"));
        assert_eq!(under(key, Shop::without(&shop)).await, Ok(3));
        assert_eq!(under(key, Pin::new(&mut shop).by_pin()).await, Ok(3));
        assert_eq!(
            under(key, shop.by_changed_ref(&more)).await,
            Ok("süd".to_owned())
        );
        assert_eq!(under(key, Rc::new(shop.clone()).by_rc()).await, Ok(1));
        let arc = Arc::new(shop.clone());
        assert_eq!(under(key, assert_send(arc.clone().by_arc())).await, Ok(2));
        assert!(Arc::ptr_eq(
            &under(key, arc.by_ref_to_arc()).await.unwrap(),
            &arc
        ));
        let boxed = under(key, Box::new(shop).by_box()).await.unwrap();
        let changed = under(key, boxed.by_changed_value()).await.unwrap();
        assert_eq!(changed.orders, 4);
        assert_eq!(under(key, changed.by_value()).await, Ok("nord".to_owned()));
    }
}

/// D1: `self` that a macro was given, which is not the `self` that the macro itself could write.
mod d1 {
    use super::*;

    struct Shop {
        id: u32,
    }

    macro_rules! methods {
        ($self:ident, $body:block, $handler:expr) => {
            impl Shop {
                #[distributed_lock(key = "by-ref:<self.id>", on_error = $handler)]
                async fn by_ref(&$self) -> u32 $body

                #[distributed_lock(key = "by-value:<self.id>")]
                async fn by_value(mut $self) -> Result<u32> {
                    $self.id += 1;
                    Ok($body)
                }

                #[expect(clippy::needless_arbitrary_self_type, reason = "it is the case")]
                #[distributed_lock(key = "typed:<self.id>")]
                async fn typed($self: &mut Self) -> Result<u32> {
                    $self.id += 1;
                    Ok($body)
                }
            }
        };
    }
    methods!(
        self,
        {
            say("body");
            self.id
        },
        |_error| 0
    );

    macro_rules! receiver {
        ($($receiver:tt)*) => {
            impl Shop {
                #[distributed_lock(key = "tokens:<self.id>")]
                async fn tokens($($receiver)*) -> Result {
                    say("body");
                    Ok(())
                }
            }
        };
    }
    receiver!(&self);

    macro_rules! inside {
        () => {
            impl Shop {
                #[distributed_lock(key = "inside:<self.id>")]
                async fn inside(&self) -> Result<u32> {
                    say("body");
                    Ok(self.id)
                }
            }
        };
    }
    inside!();

    macro_rules! method_of_trait {
        ($self:ident) => {
            #[async_trait::async_trait]
            impl Till for Shop {
                #[distributed_lock(key = "trait:<self.id>/<amount>")]
                async fn take(&$self, amount: u32) -> Result<u32> {
                    say("body");
                    Ok($self.id + amount)
                }
            }
        };
    }
    #[async_trait::async_trait]
    trait Till {
        async fn take(&self, amount: u32) -> Result<u32>;
    }
    method_of_trait!(self);

    #[tokio::test]
    async fn run() {
        let mut shop = Shop { id: 5 };
        assert_eq!(under("by-ref:5", shop.by_ref()).await, 5);
        assert_eq!(under("typed:5", shop.typed()).await, Ok(6));
        assert_eq!(under("tokens:6", shop.tokens()).await, Ok(()));
        assert_eq!(under("inside:6", shop.inside()).await, Ok(6));
        assert_eq!(under("trait:6/2", shop.take(2)).await, Ok(8));
        assert_eq!(under("by-value:6", shop.by_value()).await, Ok(7));
    }
}

/// D2: `Self` in all its places in the body.
mod d2 {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Shop<T> {
        id: T,
        orders: Vec<u8>,
    }

    trait Named {
        type Name;
        const NAME: &'static str;
    }

    impl<T> Named for Shop<T> {
        type Name = String;
        const NAME: &'static str = "shop";
    }

    impl<T: Clone + Default + PartialEq + dlock::KeyPart> Shop<T> {
        const LIMIT: usize = 2;

        fn new(id: T) -> Self {
            Self { id, orders: vec![] }
        }

        #[distributed_lock(key = "<shop.id>", ttl = Self::ttl(), wait = Self::ttl())]
        async fn uses(shop: &Self) -> Result<(Self, <Self as Named>::Name)>
        where
            Self: Named<Name = String>,
        {
            struct Nested(u8);
            impl Nested {
                fn me(self) -> Self {
                    Self(self.0 + 1)
                }
            }
            say("body");
            let Self { id, orders: _ } = shop.clone();
            let limits = vec![Self::LIMIT, Nested(2).me().0.into()];
            assert!(matches!(Self::new(id.clone()), Self { orders, .. } if orders.is_empty()));
            let _: fn(T) -> Self = Self::new;
            Ok((
                Self {
                    id,
                    ..Self::default()
                },
                format!("{} {limits:?}", Self::NAME),
            ))
        }

        fn ttl() -> std::time::Duration {
            std::time::Duration::from_secs(Self::LIMIT as u64)
        }
    }

    #[tokio::test]
    async fn run() {
        let shop = Shop {
            id: 3_u8,
            orders: vec![1],
        };
        let uses = under("3", Shop::uses(&shop)).await;
        assert_eq!(uses, Ok((Shop::new(3), "shop [2, 3]".to_owned())));
    }
}

/// D4: receivers of traits.
mod d4 {
    use super::*;

    trait Step {
        fn id(&self) -> u8;

        #[distributed_lock(key = "pinned:<self.id()>")]
        async fn pinned(self: Pin<&mut Self>) -> Result<u8> {
            say("body");
            Ok(self.id())
        }

        async fn shared(self: Arc<Self>) -> Result<u8>;

        async fn boxed(self: Box<Self>) -> Result<u8>;
    }

    struct Counter(u8);

    impl Step for Counter {
        fn id(&self) -> u8 {
            self.0
        }

        #[distributed_lock(key = "shared:<self.0>")]
        async fn shared(self: Arc<Self>) -> Result<u8> {
            say("body");
            Ok(self.0)
        }

        #[distributed_lock(key = "boxed:<self.0>")]
        async fn boxed(self: Box<Self>) -> Result<u8> {
            say("body");
            Ok(self.0)
        }
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(
            under("pinned:1", Pin::new(&mut Counter(1)).pinned()).await,
            Ok(1)
        );
        assert_eq!(
            under("shared:2", Arc::new(Counter(2)).shared()).await,
            Ok(2)
        );
        assert_eq!(under("boxed:3", Box::new(Counter(3)).boxed()).await, Ok(3));
    }
}
