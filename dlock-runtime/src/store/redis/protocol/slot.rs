//! The slot of a lock, and the name of that slot's fence.

use std::sync::LazyLock;

pub(crate) const SLOTS: usize = 16_384;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// For every slot, the smallest number whose lower-case hexadecimal form hashes to it.
///
/// In this form, the numbers are the tags of the fence keys. All processes must agree on them, so the rule must never
/// change.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    const MISSING: u32 = u32::MAX;
    let mut tags = vec![MISSING; SLOTS];
    let mut missing = SLOTS;
    // The sum of a number follows from that of the number without its last digit. Most programs pay for this at their
    // start, also where nothing is optimized: so it is a plain loop.
    let mut sums: Vec<u16> = Vec::new();
    while missing > 0 {
        let number = sums.len();
        let before = if number < 16 { 0 } else { sums[number >> 4] };
        let sum = with_byte(before, DIGITS[number & 15]);
        sums.push(sum);
        let slot = usize::from(sum) % SLOTS;
        if tags[slot] == MISSING {
            tags[slot] = u32::try_from(number).expect("it is small");
            missing -= 1;
        }
    }
    tags
});

/// Builds the table now and not during the first request. It takes about a millisecond.
pub(crate) fn prepare() {
    LazyLock::force(&TAGS);
}

/// Returns the short text that hashes to the same slot as `key`.
pub(crate) fn tag(key: &str) -> u32 {
    // A lock key has no braces, so as a hash tag it is hashed as a whole.
    TAGS[usize::from(slot(key.as_bytes()))]
}

/// Returns the slot of a whole key: the slot of the text in its first braces, if there is any.
pub(crate) fn of_key(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    slot(tag.unwrap_or(key))
}

pub(crate) fn slot(text: &[u8]) -> u16 {
    crc16(text) % 16_384
}

/// Computes CRC16 in the XMODEM variant, which Redis Cluster uses.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| with_byte(crc, byte))
}

fn with_byte(crc: u16, byte: u8) -> u16 {
    (crc << 8) ^ CRC_OF_BYTE[usize::from((crc >> 8) ^ u16::from(byte))]
}

const CRC_OF_BYTE: [u16; 256] = {
    const POLYNOMIAL: u16 = 0x1021;
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ POLYNOMIAL
            };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b"123456789"), 12_739);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b""), 0);
    }

    #[test]
    fn a_key_lies_where_its_first_braces_say() {
        for (key, tag) in [
            ("dlock:{foo}:q", "foo"),
            ("{foo}{bar}", "foo"),
            ("{}foo", "{}foo"),
            ("{foo", "{foo"),
            ("fo}o", "fo}o"),
            ("a{{b}}", "{b"),
        ] {
            assert_eq!(of_key(key.as_bytes()), slot(tag.as_bytes()), "{key}");
        }
    }

    #[test]
    fn every_tag_hashes_to_its_slot() {
        for (expected, number) in TAGS.iter().enumerate() {
            assert_eq!(
                usize::from(slot(format!("{number:x}").as_bytes())),
                expected
            );
        }
        assert_eq!(TAGS.len(), SLOTS);
        // Other versions of this program must find the same names.
        assert_eq!(TAGS.iter().max(), Some(&0x4_cd70));
        assert_eq!(format!("{:x}", tag("foo")), "43681");
    }
}
