//! Tests: a response discloses nothing of the error's text.

use std::time::Duration;

use proptest::prelude::*;

use super::{Problem, Problems, ProblemsError, install};
use crate::{
    error::{LockError, LostCause},
    key::{InvalidKeyReason, LockKey},
    store::{Holder, StoreError, StoreErrorKind},
};

/// Part of the text of every error below. No response may contain it.
const SECRET: &str = "S3CR3T";

fn key(text: &str) -> LockKey {
    LockKey::builder()
        .text(SECRET)
        .text(":")
        .part(&format!("{SECRET}{text}"))
        .build()
        .expect("the builder encodes the value")
}

fn holder(label: &str, ttl: Option<Duration>) -> Holder {
    Holder {
        label: Some(format!("{SECRET}{label}")),
        ttl,
        ..Holder::default()
    }
}

/// Returns an error of each variant; their texts contain `text`.
fn errors(text: &str, ttl: Option<Duration>, kind: StoreErrorKind) -> Vec<LockError> {
    let waited = Duration::from_secs(10);
    let reason = || StoreError::new(kind, format!("redis://{SECRET}{text}"));
    let errors = vec![
        LockError::Busy {
            key: key(text),
            waited,
            holder: Box::new(holder(text, ttl)),
        },
        LockError::Unavailable {
            key: key(text),
            waited,
            reason: reason(),
        },
        LockError::Lost {
            key: key(text),
            held_for: waited,
            cause: LostCause::NotRenewed { reason: reason() },
        },
        LockError::WouldDeadlock { key: key(text) },
        LockError::WouldBlock { key: key(text) },
        LockError::InvalidKey {
            key: format!("{SECRET}{text}"),
            reason: InvalidKeyReason::Brace,
        },
        LockError::InvalidOption {
            key: key(text),
            option: SECRET,
            reason: SECRET.into(),
        },
        LockError::NotInstalled { key: key(text) },
        LockError::Closed { key: key(text) },
    ];
    let codes: Vec<_> = errors.iter().map(LockError::code).collect();
    assert_eq!(codes, LockError::CODES, "one of each");
    errors
}

fn some_errors() -> Vec<LockError> {
    errors("42", None, StoreErrorKind::Unreachable)
}

/// A response as a client receives it.
struct Received {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Received {
    fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let value = values.next().map(|(_, value)| value);
        assert!(values.next().is_none(), "{name} occurs once");
        value.map(|value| std::str::from_utf8(value).expect("it is text"))
    }

    fn member(&self, name: &str) -> serde_json::Value {
        let body: serde_json::Value = serde_json::from_slice(&self.body).expect("it is JSON");
        body[name].clone()
    }
}

#[cfg(feature = "axum")]
fn sent_by_axum(response: impl axum_core::response::IntoResponse) -> Received {
    use futures_util::{FutureExt, StreamExt};

    let (head, body) = response.into_response().into_parts();
    let headers = head.headers.iter();
    let parts = body.into_data_stream().collect::<Vec<_>>();
    let parts = parts.now_or_never().expect("the body is there");
    let parts = parts.into_iter().map(|part| part.expect("no read fails"));
    Received {
        status: head.status.as_u16(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        body: parts.flatten().collect(),
    }
}

#[cfg(feature = "actix-web")]
fn sent_by_actix(response: actix_web::HttpResponse) -> Received {
    use actix_web::body::MessageBody;

    let headers = response.headers().iter();
    Received {
        status: response.status().as_u16(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        body: response
            .into_body()
            .try_into_bytes()
            .expect("the body is there")
            .to_vec(),
    }
}

/// The responses of the frameworks to `error`, each for the error itself and for its problem.
fn responses(error: &LockError) -> Vec<Received> {
    let mut answers = Vec::new();
    #[cfg(feature = "axum")]
    {
        answers.push(sent_by_axum(error.clone()));
        answers.push(sent_by_axum(Problem::of(error)));
    }
    #[cfg(feature = "actix-web")]
    {
        use actix_web::ResponseError;
        let problem = Problem::of(error);
        assert_eq!(error.status_code(), problem.status_code());
        answers.push(sent_by_actix(error.error_response()));
        answers.push(sent_by_actix(problem.error_response()));
        answers.push(sent_by_actix(problem.into()));
    }
    answers
}

fn kinds() -> impl Strategy<Value = StoreErrorKind> {
    use StoreErrorKind::{Denied, TimedOut, Unreachable, WrongType};
    prop::sample::select(vec![Unreachable, TimedOut, Denied, WrongType])
}

proptest! {
    #[test]
    fn no_response_discloses_a_key_a_holder_or_a_server(
        text in any::<String>(),
        ttl in any::<Option<Duration>>(),
        kind in kinds(),
    ) {
        // With a longer text, the key would be too long.
        let text: String = text.chars().take(30).collect();
        for error in errors(&text, ttl, kind) {
            prop_assert!(error.to_string().contains(SECRET));
            let answers = responses(&error);
            let same: Vec<u8> = answers[0].body.clone();
            for answer in answers {
                let headers = answer.headers.iter();
                let bytes = headers.flat_map(|(name, value)| [name.as_bytes(), value].concat());
                let bytes: Vec<u8> = bytes.chain(answer.body.iter().copied()).collect();
                let all = String::from_utf8(bytes).expect("a response is text");
                prop_assert!(!all.contains(SECRET), "{all}");
                // The length discloses nothing either.
                prop_assert_eq!(&answer.body, &same);
            }
            let one_more = errors("", ttl, kind).into_iter().find(|it| it.code() == error.code());
            prop_assert_eq!(Problem::of(&error), Problem::of(&one_more.expect("one of each")));
        }
    }

    #[test]
    fn retry_after_is_whole_seconds_rounded_up_and_at_least_one(after in any::<Duration>()) {
        let problem = Problem::of(&some_errors()[0]).with_retry_after(after);
        let seconds = problem.retry_after_seconds().expect("it was set");
        prop_assert!(seconds >= 1);
        prop_assert!(Duration::from_secs(seconds) >= after || seconds == u64::MAX);
        prop_assert!(seconds == 1 || Duration::from_secs(seconds - 1) < after);
    }

    /// The body is JSON, and configured texts reach the client unchanged.
    #[test]
    fn configured_texts_stay_in_the_body(text in any::<String>()) {
        let problem = Problem::of(&some_errors()[0])
            .with_title(text.clone())
            .with_detail(text.clone())
            .with_type(text.clone())
            .with_instance(text.clone())
            .with_member(format!("x{text}"), text.clone());
        let plain = responses(&some_errors()[0]);
        #[cfg(feature = "axum")]
        let answers = [sent_by_axum(problem.clone())];
        #[cfg(not(feature = "axum"))]
        let answers = [sent_by_actix(problem.clone().into())];
        for answer in answers {
            prop_assert_eq!(&answer.headers, &plain[0].headers);
            for name in ["title", "detail", "type", "instance", &format!("x{text}")] {
                prop_assert_eq!(answer.member(name), text.as_str());
            }
        }
    }
}

#[test]
fn each_code_has_its_status_and_its_header() {
    let expected = [
        ("busy", 409, "Conflict", Some("1")),
        ("unavailable", 503, "Service Unavailable", Some("1")),
        ("lost", 503, "Service Unavailable", None),
        ("would-deadlock", 500, "Internal Server Error", None),
        ("would-block", 500, "Internal Server Error", None),
        ("invalid-key", 400, "Bad Request", None),
        ("invalid-option", 500, "Internal Server Error", None),
        ("not-installed", 500, "Internal Server Error", None),
        ("closed", 503, "Service Unavailable", Some("5")),
    ];
    for (error, (code, status, title, retry_after)) in some_errors().iter().zip(expected) {
        for answer in responses(error) {
            assert_eq!(answer.status, status, "{code}");
            assert_eq!(answer.header("retry-after"), retry_after, "{code}");
            assert_eq!(
                answer.header("content-type"),
                Some("application/problem+json")
            );
            assert_eq!(answer.header("cache-control"), Some("no-store"));
            assert_eq!(answer.member("code"), code);
            assert_eq!(answer.member("status"), status);
            assert_eq!(answer.member("title"), title);
            assert_eq!(answer.member("type"), "about:blank");
            assert!(answer.member("detail").is_string());
            assert!(answer.member("instance").is_null());
        }
    }
}

#[test]
fn clients_retry_later_if_an_operator_has_to_fix_the_store() {
    let refused = &errors("", None, StoreErrorKind::WrongType)[1];
    assert_eq!(refused.retry_after(), None);
    assert_eq!(responses(refused)[0].header("retry-after"), Some("30"));
}

#[test]
fn a_base_uri_sets_the_types_and_the_titles() {
    let problems = Problems::builder()
        .base_uri("https://shop.example/problems#")
        .build()
        .expect("a valid base");
    for error in some_errors() {
        let problem = problems.problem(&error);
        let code = problem.code();
        assert_eq!(
            problem.type_uri(),
            format!("https://shop.example/problems#{code}")
        );
        let standard = Problem::of(&error);
        assert_ne!(problem.title(), standard.title(), "{code}");
        assert_eq!(problem.detail(), standard.detail());
    }
}

#[test]
fn overrides_for_one_code_leave_the_others_unchanged() {
    let problems = Problems::builder()
        .status("busy", 423)
        .detail("busy", "Taken.")
        .retry_after("busy", Duration::from_millis(2100))
        .retry_after("closed", None)
        .title("lost", "Gone")
        .build()
        .expect("all overrides are valid");
    let made: Vec<_> = some_errors()
        .iter()
        .map(|error| problems.problem(error))
        .collect();
    let [busy, unavailable, lost, .., closed] = made.as_slice() else {
        panic!("one of each");
    };
    assert_eq!(busy.status(), 423);
    assert_eq!(
        busy.title(),
        "Locked",
        "the phrase of the status that is sent"
    );
    assert_eq!(busy.detail(), "Taken.");
    assert_eq!(busy.retry_after_seconds(), Some(3));
    assert_eq!(lost.title(), "Gone");
    assert_eq!(lost.status(), 503);
    assert_eq!(closed.retry_after_seconds(), None);
    assert_eq!(unavailable, &Problem::of(&some_errors()[1]));
}

#[test]
fn a_status_without_a_phrase_has_a_title_nevertheless() {
    let problem = Problem::of(&some_errors()[0]).with_status(599);
    assert_eq!(problem.title(), "Error");
}

#[test]
fn invalid_settings_are_reported_by_build() {
    let base = |uri| Problems::builder().base_uri(uri).build();
    for (uri, advice) in [
        ("", "begin it with a scheme"),
        ("shop.example/", "begin it with a scheme"),
        ("1a:/", "begin it with a scheme"),
        ("https://shop.example/problems", "end it with `/` or `#`"),
        ("https://shop.example/a b/", "percent-encode it"),
        ("https://shop.example/\r\nx-evil: 1/", "percent-encode it"),
        ("https://shop.example/é/", "percent-encode it"),
    ] {
        let error = base(uri).expect_err(uri).to_string();
        assert!(error.contains(advice), "{error}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }
    for uri in [
        "/problems/",
        "urn:shop:problem:",
        "https://shop.example/?p=",
    ] {
        assert!(base(uri).is_ok(), "{uri}");
    }

    for status in [0, 200, 302, 399, 600] {
        let error = Problems::builder().status("busy", status).build();
        let expected = ProblemsError::InvalidStatus {
            code: "busy".to_owned(),
            status,
        };
        assert_eq!(error, Err(expected));
    }

    let error = Problems::builder()
        .title("bussy", "In use")
        .status("busy", 200)
        .build()
        .expect_err("the code is unknown");
    assert!(
        matches!(&error, ProblemsError::UnknownCode { code } if code == "bussy"),
        "the first mistake, and not {error}"
    );
    for code in LockError::CODES {
        assert!(error.to_string().contains(&format!("`{code}`")), "{error}");
    }
}

#[test]
fn without_debug_assertions_an_invalid_change_is_ignored() {
    let problem = || Problem::of(&some_errors()[0]);
    let changes: [fn(Problem) -> Problem; 2] = [
        |problem| problem.with_status(200),
        |problem| problem.with_member("status", 200),
    ];
    for change in changes {
        let outcome = std::panic::catch_unwind(|| change(problem()));
        // With debug assertions, it panics.
        assert_eq!(outcome.is_err(), cfg!(debug_assertions));
        if let Ok(kept) = outcome {
            assert_eq!(kept, problem());
        }
    }
}

#[test]
fn members_can_be_added_and_the_code_replaced() {
    let problem = Problem::of(&some_errors()[0])
        .with_member("order", 42)
        .with_member("code", "E1");
    assert_eq!(problem.member("order"), Some(&42.into()));
    let text = serde_json::to_string(&problem).expect("it is JSON");
    assert_eq!(text.matches("\"code\"").count(), 1, "{text}");
    assert!(
        text.contains(r#""code":"E1""#) && text.contains(r#""order":42"#),
        "{text}"
    );
}

#[test]
fn a_result_with_a_problem_is_small() {
    assert_eq!(size_of::<Problem>(), size_of::<usize>());
}

#[test]
fn problems_are_installed_once() {
    // The installed problems are the defaults: other tests in this process expect them.
    assert!(install(Problems::default()).is_ok());
    let error = install(Problems::default()).expect_err("it is the second call");
    assert_eq!(error, ProblemsError::AlreadyInstalled);
}
