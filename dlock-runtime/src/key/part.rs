//! Values in a key: which types can be one, and how they are encoded.

use std::{borrow::Cow, fmt, num, rc::Rc, sync::Arc};

use uuid::Uuid;

use super::{KeyFault, push_bounded};

/// A character of the text that no encoded value contains.
///
/// `%` occurs in encoded values, and so does every character beyond ASCII.
pub(super) fn is_delimiter(c: char) -> bool {
    c.is_ascii() && !is_plain(c) && c != '%'
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~')
}

/// Takes the text of one value and encodes it into the key.
#[derive(Debug)]
pub struct PartWriter<'a> {
    out: &'a mut String,
    fault: &'a mut Option<KeyFault>,
    start: usize,
}

impl<'a> PartWriter<'a> {
    pub(super) fn new(out: &'a mut String, fault: &'a mut Option<KeyFault>) -> Self {
        let start = out.len();
        Self { out, fault, start }
    }

    /// Appends `text`, encoded.
    pub fn push_str(&mut self, text: &str) {
        for c in text.chars() {
            // Nothing that follows can mend a fault, and the text may be very long.
            if self.fault.is_some() {
                return;
            }
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8);
            if is_plain(c) || (!c.is_ascii() && !c.is_control()) {
                push_bounded(self.out, utf8, self.fault);
            } else {
                for byte in utf8.bytes() {
                    push_bounded(self.out, &format!("%{byte:02X}"), self.fault);
                }
            }
        }
    }

    /// Appends what `value` displays, encoded and never longer than a key may be.
    pub fn push_display(&mut self, value: &dyn fmt::Display) {
        // `Err` only says that the value stopped writing; the fault is noted already.
        if fmt::Write::write_fmt(self, format_args!("{value}")).is_err() {
            *self.fault = self.fault.or(Some(KeyFault::TooLong));
        }
    }

    pub(super) fn end(self) {
        if self.out.len() == self.start {
            *self.fault = self.fault.or(Some(KeyFault::EmptyPart));
        }
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

/// A value that may stand in a lock key.
///
/// Implemented for integers, `bool`, `char`, strings, [`Uuid`], and references and smart pointers
/// to them. Not for `Option` (which text is "none"?), floats (NaN, -0.0) and collections.
///
/// For a type of your own, write what identifies it:
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{KeyPart, PartWriter};
///
/// struct Sku(String);
///
/// impl KeyPart for Sku {
///     fn write_part(&self, out: &mut PartWriter<'_>) {
///         out.push_str(&self.0);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a lock key",
    label = "its type does not implement `KeyPart`",
    note = "integers, `bool`, `char`, strings, `Uuid` and references to them can; take a field or a method of the value, as in `<order.id>`",
    note = "`Option`, floats and collections cannot: two values that mean the same could give different keys"
)]
pub trait KeyPart {
    /// Writes the text that identifies the value; equal values write equal text.
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
