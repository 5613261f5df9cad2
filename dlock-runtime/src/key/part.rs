//! Values in a key: the types that can be part of one, and their encoding.

use std::{borrow::Cow, fmt, num, rc::Rc, sync::Arc};

use uuid::Uuid;

use super::{InvalidKeyReason, LockKey};

/// Returns `true` for a character of the text that no encoded value contains.
///
/// `%` and every non-ASCII character can occur in encoded values.
pub(super) fn is_delimiter(c: char) -> bool {
    c.is_ascii() && !is_plain(c) && c != '%'
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~')
}

/// Appends `text` while the key has room. More than that is recorded as a fault and not allocated.
pub(super) fn push_bounded(out: &mut String, text: &str, fault: &mut Option<InvalidKeyReason>) {
    if out.len() + text.len() > LockKey::MAX_LEN {
        *fault = fault.or(Some(InvalidKeyReason::TooLong));
    } else {
        out.push_str(text);
    }
}

/// Receives one value, a text or several parts, and encodes it into the key.
///
/// [`push_str`](Self::push_str) and [`push_display`](Self::push_display) append text.
/// [`push_part`](Self::push_part) appends a part, which is a value itself. A value that writes both is
/// refused ([`InvalidKeyReason::Mixed`]). To combine them, write the text as a part: `push_part(&"text")`.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{KeyPart, LockKey, PartWriter};
///
/// struct Version { major: u32, minor: u32 }
///
/// impl KeyPart for Version {
///     fn write_part(&self, out: &mut PartWriter<'_>) {
///         out.push_display(&format_args!("{}.{}", self.major, self.minor));
///     }
/// }
///
/// let version = Version { major: 1, minor: 4 };
/// let key = LockKey::builder().text("release:").part(&version).build()?;
/// assert_eq!(key.as_str(), "release:1.4");
/// # Ok::<(), dlock::LockError>(())
/// ```
#[derive(Debug)]
pub struct PartWriter<'a> {
    out: &'a mut String,
    fault: &'a mut Option<InvalidKeyReason>,
    start: usize,
    /// The number of values that contain this one as a part. It is encoded that many times more than once.
    depth: usize,
    /// The number of parts of this value so far; 0 for a text.
    parts: usize,
}

impl<'a> PartWriter<'a> {
    pub(super) fn new(out: &'a mut String, fault: &'a mut Option<InvalidKeyReason>) -> Self {
        let start = out.len();
        Self {
            out,
            fault,
            start,
            depth: 0,
            parts: 0,
        }
    }

    /// Encodes and appends `text`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{KeyPart, LockKey, PartWriter};
    ///
    /// /// Compared without regard to case, so that both spellings have one lock.
    /// struct Host(String);
    ///
    /// impl KeyPart for Host {
    ///     fn write_part(&self, out: &mut PartWriter<'_>) {
    ///         out.push_str(&self.0.to_lowercase());
    ///     }
    /// }
    ///
    /// let key = LockKey::builder().text("host:").part(&Host("DB-1".to_owned())).build()?;
    /// assert_eq!(key.as_str(), "host:db-1");
    /// # Ok::<(), dlock::LockError>(())
    /// ```
    pub fn push_str(&mut self, text: &str) {
        if self.parts > 0 && !text.is_empty() {
            self.fail(InvalidKeyReason::Mixed);
        }
        for c in text.chars() {
            // The first fault is final, and the text may be very long.
            if self.fault.is_some() {
                return;
            }
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8);
            if is_plain(c) || (!c.is_ascii() && !c.is_control()) {
                push_bounded(self.out, utf8, self.fault);
            } else {
                for byte in utf8.bytes() {
                    self.escape(&format!("{byte:02X}"));
                }
            }
        }
    }

    /// Encodes and appends the text that `value` displays, up to the maximum length of a key.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::net::Ipv4Addr;
    /// use dlock::{KeyPart, LockKey, PartWriter};
    ///
    /// struct Node(Ipv4Addr);
    ///
    /// impl KeyPart for Node {
    ///     fn write_part(&self, out: &mut PartWriter<'_>) {
    ///         out.push_display(&self.0);
    ///     }
    /// }
    ///
    /// let key = LockKey::builder().text("node:").part(&Node(Ipv4Addr::LOCALHOST)).build()?;
    /// assert_eq!(key.as_str(), "node:127.0.0.1");
    /// # Ok::<(), dlock::LockError>(())
    /// ```
    pub fn push_display(&mut self, value: &dyn fmt::Display) {
        // `Err` means only that the value stopped writing. The fault is already recorded.
        if fmt::Write::write_fmt(self, format_args!("{value}")).is_err() {
            self.fail(InvalidKeyReason::TooLong);
        }
    }

    /// Appends a value as a part of this one.
    ///
    /// Parts are distinguished from each other and from texts, whatever they contain: `("a:b", "c")`, `("a",
    /// "b:c")`, `(("a", "b"), "c")` and `"a:b:c"` have four different keys. A part must not be empty.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{KeyPart, LockKey, PartWriter};
    ///
    /// struct Invoice { shop: String, number: u32 }
    ///
    /// impl KeyPart for Invoice {
    ///     fn write_part(&self, out: &mut PartWriter<'_>) {
    ///         out.push_part(&self.shop);
    ///         out.push_part(&self.number);
    ///     }
    /// }
    ///
    /// let invoice = Invoice { shop: "north".to_owned(), number: 7 };
    /// let key = LockKey::builder().text("invoice:").part(&invoice).build()?;
    /// assert_eq!(key.as_str(), "invoice:north%3a7");
    /// # Ok::<(), dlock::LockError>(())
    /// ```
    pub fn push_part(&mut self, part: &dyn KeyPart) {
        if self.parts == 0 && self.out.len() > self.start {
            self.fail(InvalidKeyReason::Mixed);
        }
        if self.parts > 0 {
            self.separator();
        }
        self.parts += 1;
        let depth = self.depth + 1;
        // Every value that consists of parts has a separator: 3 bytes at the first depth and 2 more at each
        // further depth. The length limit therefore ends a chain of any length before the stack overflows.
        if depth * (depth + 2) > LockKey::MAX_LEN {
            self.fail(InvalidKeyReason::TooLong);
        }
        if self.fault.is_some() {
            return;
        }
        let mut inner = PartWriter {
            depth,
            ..PartWriter::new(self.out, self.fault)
        };
        part.write_part(&mut inner);
        inner.end();
    }

    pub(super) fn end(mut self) {
        if self.out.len() == self.start {
            self.fail(InvalidKeyReason::EmptyPart);
        }
        // A value with one part differs from the part itself; otherwise nested lists could collide: `[[a,
        // b]]` is not `[a, b]`. Parts are never empty, so this cannot be read as two parts.
        if self.parts == 1 {
            self.separator();
        }
    }

    /// Appends a colon that no text can contain: colons of texts are written with upper-case digits.
    fn separator(&mut self) {
        self.escape("3a");
    }

    /// Appends `%XX`, encoded once per level of depth: each time, `%` becomes `%25`.
    fn escape(&mut self, digits: &str) {
        push_bounded(self.out, "%", self.fault);
        for _ in 0..self.depth {
            push_bounded(self.out, "25", self.fault);
        }
        push_bounded(self.out, digits, self.fault);
    }

    /// Records a fault. The first fault is the one that is reported.
    fn fail(&mut self, fault: InvalidKeyReason) {
        *self.fault = self.fault.or(Some(fault));
    }
}

impl fmt::Write for PartWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        if self.fault.is_some() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

/// A value that can be part of a lock key.
///
/// dlock implements it for integers, `bool`, `char`, strings and [`Uuid`], and for references and smart
/// pointers to them. It does not implement it for `Option` (no text means "none"), floats (NaN, -0.0) and
/// collections.
///
/// For your own type, `#[derive(KeyPart)]` uses its fields, or the names of its variants. A manual
/// implementation writes what identifies the value: a text, or several parts.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{KeyPart, PartWriter};
///
/// struct Email(String);
///
/// impl KeyPart for Email {
///     fn write_part(&self, out: &mut PartWriter<'_>) {
///         out.push_str(&self.0.to_lowercase());
///     }
/// }
///
/// enum Owner {
///     Person(Email),
///     Team { company: u32, name: String },
/// }
///
/// impl KeyPart for Owner {
///     fn write_part(&self, out: &mut PartWriter<'_>) {
///         match self {
///             Self::Person(email) => {
///                 out.push_part(&"person");
///                 out.push_part(email);
///             }
///             Self::Team { company, name } => {
///                 out.push_part(&"team");
///                 out.push_part(company);
///                 out.push_part(name);
///             }
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a lock key",
    label = "this type does not implement `KeyPart`",
    note = "add `#[derive(KeyPart)]` to a type of your own; `#[key_part(skip)]` excludes a field",
    note = "or use a field or method of the value, as in `<order.id>`",
    note = "integers, `bool`, `char`, strings, `Uuid` and references to them implement `KeyPart`",
    note = "`Option`, floats and collections do not: values that mean the same could give different keys"
)]
pub trait KeyPart {
    /// Writes what identifies the value. Equal values must write the same.
    ///
    /// You can pass `out` on to one other value, which then represents this value completely. Write several
    /// values with [`push_part`](PartWriter::push_part): written directly to `out`, they would run together.
    fn write_part(&self, out: &mut PartWriter<'_>);
}

macro_rules! display_parts {
    ($($ty:ty),* $(,)?) => { $(
        impl KeyPart for $ty {
            fn write_part(&self, out: &mut PartWriter<'_>) {
                out.push_display(self);
            }
        }
    )* };
}

display_parts! {
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, bool, char, Uuid,
    num::NonZeroU8, num::NonZeroU16, num::NonZeroU32, num::NonZeroU64, num::NonZeroU128,
    num::NonZeroUsize, num::NonZeroI8, num::NonZeroI16, num::NonZeroI32, num::NonZeroI64,
    num::NonZeroI128, num::NonZeroIsize,
}

impl KeyPart for str {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        out.push_str(self);
    }
}

impl KeyPart for String {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        out.push_str(self);
    }
}

macro_rules! pointer_parts {
    ($($pointer:ty),* $(,)?) => { $(
        impl<T: KeyPart + ?Sized> KeyPart for $pointer {
            fn write_part(&self, out: &mut PartWriter<'_>) {
                (**self).write_part(out);
            }
        }
    )* };
}

pointer_parts!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

impl<T: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, T> {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        (**self).write_part(out);
    }
}
