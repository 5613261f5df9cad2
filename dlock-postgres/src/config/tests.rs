use super::*;

fn parsed(url: &str) -> Result<Config, ConnectError> {
    Config::parse(url, &StoreOptions::default())
}

#[test]
fn the_namespace_is_the_schema_unless_the_url_names_another() {
    let usual = parsed("postgres://shop:pass@db:5433/shop").unwrap();
    assert_eq!(
        (usual.schema.name(), usual.listen),
        ("dlock", Listen::Direct)
    );
    assert_eq!(usual.shown, "postgres://db:5433/shop");
    let other = parsed("postgres://shop@db/shop?schema=locks%202&connect_timeout=3").unwrap();
    assert_eq!(other.schema.name(), "locks 2");
}

#[test]
fn messages_may_take_another_way() {
    let found = parsed("postgres://shop:pass@pooler:6432/shop?listen=db:5433").unwrap();
    assert_eq!(found.listen, Listen::Always);
    assert_eq!(found.requests.hosts[0].get_ports(), [6432]);
    assert_eq!(found.messages.hosts[0].get_ports(), [5433]);
    assert_eq!(found.messages.hosts[0].get_password(), Some(&b"pass"[..]));
    let off = parsed("postgres://shop@pooler/shop?listen=off").unwrap();
    assert_eq!(off.listen, Listen::Never);
}

#[test]
fn a_url_that_cannot_be_used_says_why_and_hides_its_password() {
    for (url, why) in [
        ("postgres:///shop", "no host"),
        ("postgres://db/shop", "no user"),
        (
            "postgres://shop:hush@db/shop?schema=a&schema=b",
            "`schema` twice",
        ),
        (
            "postgres://shop:hush@db/shop?schema=",
            "between 1 and 63 bytes",
        ),
        (
            "postgres://shop:hush@db/shop?listen=db:x",
            "`listen`: a port is not a number",
        ),
        (
            "postgres://shop:hush@db/shop?sslmode=sometimes",
            "`sslmode` is `disable` or `require`",
        ),
        (
            "postgres://shop:hush@db/shop?sslcert=a.pem",
            "belong together",
        ),
        ("postgres://shop:hush@db/shop?colour=red", "colour"),
        ("postgres://shop:hush@db:port/shop", "port"),
        ("postgres://shop:hush/shop", "port"),
        (
            "postgres://shop:hush@db,db:5432/shop",
            "it names db:5432 twice",
        ),
        ("postgres://shop:hush@db,/shop", "no host"),
        ("postgres://shop:%FFhush@db/shop", "percent-encoded"),
        ("postgres://shop:a?hush@db/shop", "for a `?` in a password"),
        ("postgres://shop:p@hush@db/shop", "`%40` for an `@`"),
        (
            "postgres://shop:hush@db/shop?sslrootcert=ca.pem",
            "need `sslmode=require`",
        ),
        (
            "postgres://shop:hush@db/shop?sslnegotiation=direct",
            "need `sslmode=require`",
        ),
        (
            "postgres://shop:hush@db/shop&sslmode=require",
            "options follow one `?`",
        ),
        (
            "postgres://shop:hush@db/shop?schema=locks?sslmode=require",
            "options follow one `?`",
        ),
    ] {
        let error = parsed(url).expect_err(url).to_string();
        assert!(
            error.contains(why) && !error.contains("hush"),
            "{url}: {error}"
        );
    }
    let error = parsed("postgres://shop@db/shop?sslmode=require&sslrootcert=/none.pem");
    assert!(error.unwrap_err().to_string().contains("`sslrootcert`"));
}

/// The host and port of a route with one host.
fn place(route: &Route) -> String {
    assert_eq!(route.hosts.len(), 1);
    hosts::place(&route.hosts[0])
}

#[test]
fn messages_and_renewals_take_the_place_that_the_url_names() {
    for (listen, expected) in [
        ("db", "db:5432"),
        ("db:5433", "db:5433"),
        ("[::1]", "::1:5432"),
        ("[::1]:5433", "::1:5433"),
        ("::1", "::1:5432"),
        ("2001:db8::7", "2001:db8::7:5432"),
        ("10.0.0.7:5433", "10.0.0.7:5433"),
        ("/run/postgresql", "/run/postgresql:5432"),
        ("/run/postgresql:5433", "/run/postgresql:5433"),
    ] {
        let found = parsed(&format!("postgres://shop@pooler:6432/shop?listen={listen}")).unwrap();
        assert_eq!(place(&found.messages), expected, "{listen}");
        assert_eq!(place(&found.requests), "pooler:6432");
    }
    for (listen, why) in [
        ("", "`listen`: it has no host"),
        (":5433", "`listen`: it has no host"),
        ("[]:5433", "`listen`: a host has a character"),
        ("db:", "`listen`: a port is not a number"),
        ("db:65536", "`listen`: a port is not a number"),
    ] {
        let error = parsed(&format!("postgres://shop@pooler/shop?listen={listen}"));
        let error = error.expect_err(listen).to_string();
        assert!(error.contains(why), "{listen}: {error}");
    }
}

#[test]
fn the_way_of_messages_has_the_login_and_the_limits_of_the_url() {
    let authority = dlock_testkit::Authority::new();
    let url = format!(
        "postgres://shop:pass@pooler/orders?listen=db&application_name=billing&options=-c%20a.b%3Dc&channel_binding=require\
         &sslnegotiation=direct&tcp_user_timeout=20&{}",
        authority.ssl_options(None)
    );
    let mut options = StoreOptions::default();
    options.connect_timeout = Duration::from_secs(7);
    let found = Config::parse(&url, &options).unwrap();
    assert!(found.messages.tls.is_some() && found.requests.tls.is_some());
    for route in [&found.requests, &found.messages] {
        let host = &route.hosts[0];
        assert_eq!(host.get_user(), Some("shop"));
        assert_eq!(host.get_password(), Some(&b"pass"[..]));
        assert_eq!(host.get_dbname(), Some("orders"));
        assert_eq!(host.get_application_name(), Some("billing"));
        assert_eq!(host.get_options(), Some("-c a.b=c"));
        assert_eq!(host.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(host.get_ssl_mode(), SslMode::Require);
        assert_eq!(
            host.get_channel_binding(),
            tokio_postgres::config::ChannelBinding::Require
        );
        // A connection without traffic whose other end is gone is found out within half a minute.
        assert_eq!(host.get_keepalives_idle(), Duration::from_secs(15));
        let interval = Duration::from_secs(5);
        assert_eq!(host.get_keepalives_interval(), Some(interval));
        assert_eq!(host.get_keepalives_retries(), Some(3));
        assert_eq!(host.get_ssl_negotiation(), SslNegotiation::Direct);
        let silence = Duration::from_secs(20);
        assert_eq!(host.get_tcp_user_timeout(), Some(&silence));
    }
}

#[test]
fn a_connection_is_encrypted_if_the_url_says_so_and_not_otherwise() {
    for (query, is_encrypted) in [
        ("", false),
        ("?sslmode=disable", false),
        ("?sslmode=require", true),
        ("?sslmode=verify-ca", true),
        ("?sslmode=verify-full", true),
        ("?sslmode=require&sslnegotiation=direct", true),
    ] {
        let found = parsed(&format!("postgres://shop@db/shop{query}")).unwrap();
        assert_eq!(found.requests.tls.is_some(), is_encrypted, "{query}");
        let mode = if is_encrypted {
            SslMode::Require
        } else {
            SslMode::Disable
        };
        assert_eq!(found.requests.hosts[0].get_ssl_mode(), mode, "{query}");
    }
}

#[test]
fn a_connection_is_named_after_its_process_and_the_version_that_it_knows() {
    let name = |label: &str, query: &str| {
        let mut options = StoreOptions::default();
        label.clone_into(&mut options.label);
        let url = format!("postgres://shop@db/shop{query}");
        let found = Config::parse(&url, &options).unwrap();
        found.requests.hosts[0]
            .get_application_name()
            .map(str::to_owned)
    };
    let named = format!("billing@host/7 dlock/{VERSION}");
    assert_eq!(name("billing@host/7", ""), Some(named));
    assert_eq!(name("", ""), None);
    let own = name("billing@host/7", "?application_name=own");
    assert_eq!(own.as_deref(), Some("own"));
    // PostgreSQL would cut off the version.
    let long = name(&"x".repeat(100), "").unwrap();
    assert_eq!(long.len(), 63);
    assert!(long.ends_with(&format!("x dlock/{VERSION}")), "{long}");
}

#[test]
fn the_options_of_the_url_reach_the_server_as_they_were_written() {
    let url = "postgres://shop@db/shop?options=-c%20a.b%3D1%2B1+1&schema=locks&application_name=a%20b&sslmode=disable";
    let found = parsed(url).unwrap();
    let host = &found.requests.hosts[0];
    assert_eq!(host.get_options(), Some("-c a.b=1+1+1"));
    assert_eq!(host.get_application_name(), Some("a b"));
    assert_eq!(found.role, "shop");
}

#[test]
fn a_request_is_undone_before_its_caller_gives_up() {
    let mut options = StoreOptions::default();
    options.response_timeout = Duration::from_secs(3);
    options.connect_timeout = Duration::from_secs(9);
    let found = Config::parse("postgres://shop@db/shop", &options).unwrap();
    assert_eq!(found.lock_limit(), Duration::from_secs(2));
    assert_eq!(found.response_limit, Duration::from_secs(3));
    assert_eq!(found.connect_limit, Duration::from_secs(9));
}
