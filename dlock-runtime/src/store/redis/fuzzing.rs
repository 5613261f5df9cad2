//! The rules that hold for URLs, for a server's replies and for hints, whatever they contain.
//!
//! For tests and for the targets in `fuzz/`; see [`crate::fuzzing`].

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use redis::{PushInfo, PushKind, Value};

#[cfg(feature = "admin")]
use super::admin::inspect;
use super::{
    RedisConfig,
    config::url::{Address, Location, UrlLayout},
    net::{hints, server_check},
    protocol::{answers, command::Command, errors, redirect, slot},
    topology::{cluster, sentinel},
};
use crate::{
    error::ConnectError,
    fuzzing::Bytes,
    key::LockKey,
    owner::{ClientId, OwnerId},
    random::Random,
    store::{
        AcquireOutcome, AcquireRequest, Hint, HintReceiver, HintSink, Queue, Raised,
        ReleaseRequest, Released, Renewal, StoreError,
    },
};

const SECRET: &str = "s3cr3t-p4ssw0rd";

/// In characters: what a server sends is quoted up to some length.
const LONGEST_MESSAGE: usize = 1024;

/// A URL is read or refused, and neither shows a password, wherever in it that stands.
///
/// # Panics
///
/// Where that is not so.
pub fn url(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let place = usize::from(bytes.next());
    let text = String::from_utf8_lossy(bytes.rest()).into_owned();
    if let Ok(location) = Location::parse(&text) {
        check_location(&text, &location);
    }

    let place = (0..=text.len())
        .filter(|&at| text.is_char_boundary(at))
        .cycle()
        .nth(place)
        .expect("the beginning is one");
    let mut with_secret = text;
    with_secret.insert_str(place, SECRET);
    let shown = match Location::parse(&with_secret) {
        // A part that cannot be read may be a password anywhere.
        Err(error) => {
            let ConnectError::InvalidUrl { url, .. } = &error else {
                panic!("{error}");
            };
            assert!(url == "…" || url.ends_with("://…"), "{url}");
            format!("{error} {error:?}")
        }
        Ok(location) if is_secret(&with_secret, place) => {
            let config = RedisConfig::new(&with_secret);
            format!("{location} {location:?} {config:?}")
        }
        Ok(_) => return,
    };
    assert!(!shown.contains(SECRET), "{with_secret}: {shown}");
    assert!(!shown.contains(char::is_control), "{shown:?}");
    // Three times, each character of a host as nine.
    assert!(shown.len() < 3 * LONGEST_MESSAGE + 27 * with_secret.len());
}

/// `true` if the text at this place is before an `@`, or after a `?`.
fn is_secret(url: &str, place: usize) -> bool {
    let start = url.find("://").expect("it is a URL") + 3;
    let rest = &url[start..];
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let login = rest[..authority].rfind('@').map_or(0, |at| start + at);
    let query = url.find('?').unwrap_or(url.len());
    (start..login).contains(&place) || place > query
}

/// A location names a server, and its text names the same one.
fn check_location(text: &str, location: &Location) {
    assert!(!text.contains(|c: char| c.is_control() || c == ' '));
    let addresses = location.addresses();
    for address in addresses {
        match address {
            Address::Tcp(host, port) => assert!(!host.is_empty() && *port > 0, "{text}"),
            #[cfg(unix)]
            Address::Unix(path) => assert!(path.is_absolute(), "{text}"),
        }
    }
    let different: HashSet<_> = addresses.iter().collect();
    assert!(different.len() == addresses.len() && !different.is_empty());
    let least = match location.layout() {
        UrlLayout::Independent => 3,
        _ => 1,
    };
    assert!(addresses.len() >= least);
    assert!(addresses.len() == 1 || *location.layout() != UrlLayout::Single);

    let shown = location.to_string();
    let plain = shown
        .strip_suffix("?***")
        .unwrap_or(&shown)
        .replacen("://***@", "://", 1);
    let again = Location::parse(&plain).unwrap_or_else(|error| panic!("{text}: {shown}: {error}"));
    assert_eq!(again.addresses(), addresses, "{text}: {shown}");
    assert_eq!(again.layout(), location.layout(), "{text}: {shown}");
}

/// Every key of a lock lies in one slot, and it is that of the lock's name.
pub(crate) fn one_slot(key: &LockKey) {
    let expected = slot_of(key.as_str().as_bytes());
    for raw_keys in [false, true] {
        let config = RedisConfig {
            raw_keys,
            ..RedisConfig::new("redis://localhost")
        };
        let request =
            AcquireRequest::new(key, owner(), Duration::from_secs(1)).queue(Queue::ForLease);
        let command = Command::acquire(&config, &request);
        let words: Vec<_> = command.arguments().collect();
        let keys = &words[3..7];
        for name in keys {
            assert_eq!(slot_of(tag(name)), expected, "{key}");
        }
        let different: HashSet<_> = keys.iter().collect();
        assert_eq!(different.len(), 4, "{key}");
        assert_eq!(command.slot(), expected);
        assert_eq!(raw_keys, keys[0] == key.as_str().as_bytes());
    }
    assert_eq!(slot::of_key(key.as_str().as_bytes()), expected);
}

/// The part of a key that a node hashes.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    match key[open + 1..].iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(length) => &key[open + 1..open + 1 + length],
    }
}

/// Bit by bit.
fn slot_of(tag: &[u8]) -> u16 {
    let mut crc = 0_u32;
    for byte in tag {
        for bit in (0..8).rev() {
            crc = crc << 1 ^ u32::from(byte >> bit & 1);
            crc ^= (crc >> 16 & 1) * 0x1_1021;
        }
    }
    for _ in 0..16 {
        crc <<= 1;
        crc ^= (crc >> 16 & 1) * 0x1_1021;
    }
    u16::try_from(crc % 16_384).expect("a slot is small")
}

/// A reply on the wire is understood as what it says, or not at all.
///
/// # Panics
///
/// Where that is not so.
pub fn replies(data: &[u8]) {
    let value = match redis::parse_redis_value(data) {
        Ok(value) => value,
        Err(error) => {
            check_text(&errors::of_request(&error, Duration::from_secs(1)));
            return;
        }
    };
    check_answers(data, &value);
    check_descriptions(&value);
    #[cfg(feature = "admin")]
    check_snapshot(&value);
    if let Value::Push { kind, data } = &value {
        let heard = hear(false, |hints| {
            hints.take(&PushInfo {
                kind: kind.clone(),
                data: data.clone(),
            });
        });
        assert!(heard.is_empty() || *kind == PushKind::Message);
    }
    if let Err(error) = value.extract_error() {
        let limit = Duration::from_secs(1);
        let key = LockKey::new("order:42").expect("it is valid");
        let config = RedisConfig::new("redis://localhost");
        let command = Command::release(&config, &ReleaseRequest::new(&key, owner()));
        for told in [
            errors::of_request(&error, limit),
            errors::of_command(&redis::cmd("WAIT"), &error, limit),
            errors::of_login(&error, limit, 3),
            command.explain(&error, limit),
        ] {
            check_text(&told);
        }
        if redirect::Redirect::of(&error).is_some() {
            let line = String::from_utf8_lossy(data);
            assert!(
                ["MOVED", "ASK", "TRYAGAIN"]
                    .iter()
                    .any(|code| line.contains(code))
            );
        }
    }
}

/// Nothing but a whole number is a grant, nothing but 1 a renewal.
fn check_answers(wire: &[u8], value: &Value) {
    let number = number_on(wire);
    let shape = shape_of(value);
    match answers::read_acquisition(value) {
        Ok(AcquireOutcome::Granted { fence, .. }) => {
            assert!(is_number_with_messages(&shape), "{shape}");
            assert_eq!(first_number(value), i64::try_from(fence).ok());
        }
        Ok(AcquireOutcome::Busy(holder)) => {
            let rest = shape.strip_prefix("(nnntn").expect("all its fields");
            let rest = rest.strip_prefix('n').unwrap_or(rest);
            assert!(are_messages(rest), "{shape}");
            let shown = holder.to_string();
            assert!(!shown.contains(char::is_control), "{shown:?}");
            assert!(shown.len() < LONGEST_MESSAGE, "{}", shown.len());
        }
        Err(error) => check_text(&error),
    }
    match answers::read_renewal(value) {
        Ok(Renewal::Renewed) => assert_eq!(number, Some(1)),
        Ok(Renewal::NotOwner) => assert_eq!(number, Some(0)),
        Err(error) => check_text(&error),
    }
    match answers::read_raise(value) {
        Ok(Raised::Raised) => assert_eq!(number, Some(1)),
        Ok(Raised::NotOwner) => assert_eq!(number, Some(0)),
        Err(error) => check_text(&error),
    }
    let outcome = first_number(value).filter(|_| is_number_with_messages(&shape));
    match answers::read_release(value) {
        Ok(Released::WasHeld) => assert!(matches!(outcome, Some(1..=3))),
        Ok(Released::WasGone) => assert_eq!(outcome, Some(0)),
        Err(error) => check_text(&error),
    }
    for wake_up in answers::unsent_wake_ups(value) {
        let sent = [wake_up.channel, wake_up.message];
        let is_in = |text: &[u8]| wire.windows(text.len().max(1)).any(|it| it == text);
        assert!(sent.iter().all(|text| text.is_empty() || is_in(text)));
    }
}

/// The kinds of what an answer consists of: numbers, texts and others, in brackets if there are any number of them.
fn shape_of(value: &Value) -> String {
    let kind = |value: &Value| match value {
        Value::Int(_) => 'n',
        Value::BulkString(_) => 't',
        _ => '?',
    };
    match value {
        Value::Array(items) => std::iter::once('(').chain(items.iter().map(kind)).collect(),
        other => kind(other).to_string(),
    }
}

/// A number alone, or with messages behind it.
fn is_number_with_messages(shape: &str) -> bool {
    shape == "n" || shape.strip_prefix("(n").is_some_and(are_messages)
}

/// Pairs of texts.
fn are_messages(shape: &str) -> bool {
    shape.len().is_multiple_of(2) && shape.chars().all(|kind| kind == 't')
}

fn first_number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Array(items) => items.first().and_then(first_number),
        _ => None,
    }
}

/// All that a snapshot shows is in the answer, and each of those who share a lock is there once.
#[cfg(feature = "admin")]
fn check_snapshot(value: &Value) {
    let seen = match inspect::read_snapshot(value) {
        Ok(seen) => seen,
        Err(error) => return check_text(&error),
    };
    let Value::Array(fields) = value else {
        panic!("it was read as a snapshot: {value:?}");
    };
    let length = |at: usize| match &fields[at] {
        Value::Array(items) => items.len(),
        other => panic!("not a list: {other:?}"),
    };
    let (queue, sharing) = (length(6), length(8));
    assert!(seen.waiters.len() <= queue / 3, "{seen:?}");
    if sharing == 0 {
        assert!(seen.occupants.len() <= 1 && seen.unlisted == 0, "{seen:?}");
        assert!(seen.occupants.iter().all(|it| !it.is_shared), "{seen:?}");
    } else {
        assert!(seen.occupants.len() <= (sharing - 2) / 2, "{seen:?}");
        assert!(seen.occupants.iter().all(|it| it.is_shared), "{seen:?}");
    }
    for holder in &seen.occupants {
        for text in [&holder.label, &holder.function].into_iter().flatten() {
            assert!(!text.contains(char::is_control), "{text:?}");
        }
    }
}

/// The number that a reply is, if it is one.
fn number_on(wire: &[u8]) -> Option<i64> {
    let rest = wire.strip_prefix(b":")?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    str::from_utf8(&rest[..end]).ok()?.trim().parse().ok()
}

/// Descriptions that servers, nodes and Sentinels give of themselves and of others.
fn check_descriptions(value: &Value) {
    for in_cluster in [false, true] {
        if let Err(error) = server_check::check_server(value, in_cluster) {
            check_text(&error);
        }
    }
    let from = Address::Tcp("here".into(), 6379);
    if let Some(topology) = cluster::Topology::read(value, &from) {
        assert!(topology.agrees_with(&topology));
        for (slots, _) in &topology.masters {
            assert!(slots.start() <= slots.end() && *slots.end() < 16_384);
        }
        let masters = topology.masters.iter().map(|(_, address)| address);
        for address in masters.chain(&topology.replicas) {
            assert!(matches!(address, Address::Tcp(_, port) if *port > 0));
        }
    }
    sentinel::epoch(value);
    sentinel::read_address(value);
}

/// It can stand in a line of a log.
fn check_text(error: &StoreError) {
    let shown = format!("{error} {error:?}");
    assert!(!error.message().contains(char::is_control), "{shown:?}");
    assert!(error.message().chars().count() < LONGEST_MESSAGE, "{shown}");
}

/// A message is a hint exactly if it has the form of one, and goes to the client it names.
///
/// # Panics
///
/// Where that is not so.
pub fn hints(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let begins_well = !bytes.next().is_multiple_of(4);
    let rest = bytes.rest();
    let message = if begins_well {
        [format!("{}.", client()).as_bytes(), rest].concat()
    } else {
        rest.to_vec()
    };
    for must_ask in [false, true] {
        let expected: Vec<_> = expected_hint(&message, must_ask).into_iter().collect();
        let heard = hear(must_ask, |hints| hints.hear(&message));
        assert_eq!(heard, expected);
        let push = PushInfo {
            kind: PushKind::Message,
            data: vec![Value::Nil, Value::BulkString(message.clone())],
        };
        assert_eq!(hear(must_ask, |hints| hints.take(&push)), expected);
    }
}

/// The owner, the fence, the number of the grant and the key.
type Heard = (String, u64, u64, String);

/// `owner fence key` or `owner fence+number key`, where the owner is an attempt of ours.
fn expected_hint(message: &[u8], must_ask: bool) -> Option<Heard> {
    let text = str::from_utf8(message).ok()?;
    let [owner, grant, key] = text.splitn(3, ' ').collect::<Vec<_>>().try_into().ok()?;
    let attempt = owner.strip_prefix(&format!("{}.", client()))?;
    let id: u64 = attempt.parse().ok()?;
    let is_ours = attempt == id.to_string();
    let numbers: Vec<_> = grant.split('+').collect();
    let are_digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let (fence, number) = match numbers.as_slice() {
        [fence] if are_digits(fence) => (*fence, *fence),
        [fence, number] if are_digits(fence) && are_digits(number) => (*fence, *number),
        _ => return None,
    };
    let (mut fence, mut number) = (fence.parse().ok()?, number.parse().ok()?);
    if must_ask {
        (fence, number) = (0, 0);
    }
    (is_ours && !key.is_empty()).then(|| (owner.to_owned(), fence, number, key.to_owned()))
}

/// The hints that a manager receives while something `happens`.
fn hear(must_ask: bool, happens: impl FnOnce(&hints::Hints)) -> Vec<Heard> {
    #[derive(Default)]
    struct Ear(Mutex<Vec<Heard>>);

    impl HintReceiver for Ear {
        fn hint(&self, hint: &Hint<'_>) -> bool {
            let mut heard = self.0.lock().expect("nothing panics under it");
            heard.push((
                hint.owner.to_string(),
                hint.fence,
                hint.number,
                hint.key.to_owned(),
            ));
            true
        }

        fn look_again(&self) -> bool {
            panic!("nothing was missed");
        }
    }

    let (hints, ear) = (hints::Hints::new(must_ask), Arc::new(Ear::default()));
    hints.attach(client(), HintSink::new(ear.clone()));
    happens(&hints);
    std::mem::take(&mut *ear.0.lock().expect("nothing panics under it"))
}

/// Always the same.
fn client() -> ClientId {
    struct Fixed;

    impl Random for Fixed {
        fn next_u64(&self) -> u64 {
            0x0123_4567_89ab_cdef
        }
    }

    ClientId::new(&Fixed)
}

fn owner() -> OwnerId {
    OwnerId::new(client(), 7)
}
