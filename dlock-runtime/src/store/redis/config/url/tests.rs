//! Tests of URLs as they are parsed and as they are shown.

use proptest::prelude::*;

use super::*;

const NO_PORT: &str = "a port is not a number from 1 to 65535; write `redis://host:6379`";

fn shown(text: &str) -> String {
    Location::parse(text).expect("the URL is valid").to_string()
}

fn tcp(host: &str, port: u16) -> Address {
    Address::Tcp(host.into(), port)
}

fn only(location: &Location) -> Endpoint {
    assert_eq!(location.layout(), &UrlLayout::Single);
    location.endpoint(location.addresses()[0].clone())
}

fn refused(text: &str) -> String {
    Location::parse(text)
        .expect_err("the URL is invalid")
        .to_string()
}

#[test]
fn addresses_are_read() {
    let location = Location::parse("redis://me:p%40ss@db.example:7000/3").unwrap();
    let endpoint = only(&location);
    assert_eq!(endpoint.address(), &tcp("db.example", 7000));
    assert_eq!(endpoint.login.username(), Some("me"));
    assert_eq!(endpoint.login.password(), Some("p@ss"));
    assert_eq!(endpoint.login.db(), 3);
    assert_eq!(endpoint.to_string(), "redis://***@db.example:7000/3");
    assert_eq!(location.to_string(), endpoint.to_string());
    assert_eq!(shown("valkey://localhost"), "valkey://localhost:6379");
    assert_eq!(shown("redis://:pw@[::1]/"), "redis://***@[::1]:6379");
    let v6 = Location::parse("redis://[::1]").unwrap();
    assert_eq!(v6.addresses(), [tcp("::1", 6379)]);
}

#[test]
fn lists_of_servers_are_read() {
    let text = "redis-sentinel://me:p%40ss@a,b:7000,[::1]/my-master/3";
    let sentinels = Location::parse(text).unwrap();
    assert_eq!(sentinels.layout(), &UrlLayout::Sentinel("my-master".into()));
    assert_eq!(
        sentinels.addresses(),
        [tcp("a", 26379), tcp("b", 7000), tcp("::1", 26379)]
    );
    assert_eq!(
        sentinels.to_string(),
        "redis-sentinel://***@a:26379,b:7000,[::1]:26379/my-master/3"
    );
    let master = sentinels.endpoint(tcp("::2", 6379));
    assert_eq!(master.to_string(), "redis://[::2]:6379");
    assert_eq!(master.login.password(), Some("p@ss"));
    assert_eq!(master.login.db(), 3);

    let nodes = Location::parse("valkey-cluster://a,b:7000").unwrap();
    assert_eq!(nodes.layout(), &UrlLayout::Cluster);
    assert_eq!(nodes.addresses(), [tcp("a", 6379), tcp("b", 7000)]);
    let node = nodes.endpoint(tcp("c", 1));
    assert_eq!(node.to_string(), "valkey://c:1");

    let text = "redis-sentinel://a/m?sentinel_pass=secret&min_replicas=1";
    let sentinels = Location::parse(text).unwrap();
    assert_eq!(sentinels.to_string(), "redis-sentinel://a:26379/m?***");
    assert_eq!(sentinels.min_replicas(), 1);
    let [sentinel] = sentinels.sentinels().try_into().unwrap();
    assert_eq!(sentinel.to_string(), "the Sentinel at a:26379");
    assert_eq!(sentinel.login.password(), Some("secret"));
    let master = sentinels.endpoint(tcp("h", 1));
    assert_eq!(master.login.password(), None, "that is for the Sentinels");
    assert!(refused("redis-sentinel://a/m?sentinel_user=u").contains("without a `sentinel_pass`"));
    assert!(refused("redis://a?sentinel_pass=secret").contains("cannot have `sentinel_pass`"));
    assert!(refused("redis-cluster://a?min_replicas=1").contains("cannot have `min_replicas`"));

    let quorum = Location::parse("redlock://:pw@a,b:7000,c/3").unwrap();
    assert_eq!(quorum.layout(), &UrlLayout::Independent);
    assert_eq!(
        quorum.addresses(),
        [tcp("a", 6379), tcp("b", 7000), tcp("c", 6379)]
    );
    assert_eq!(quorum.to_string(), "redlock://***@a:6379,b:7000,c:6379/3");
    let server = quorum.endpoint(tcp("b", 7000));
    assert_eq!(server.to_string(), "redis://b:7000");
    assert_eq!(
        (server.login.password(), server.login.db()),
        (Some("pw"), 3)
    );
    assert!(refused("redlock://a,b").contains("fewer than three servers"));
    assert!(refused("redlock://a,b,a:6379").contains("names a:6379 twice"));
    assert!(refused("redlock://a,b,c/x").contains("number of a database"));
    assert!(refused("redlock://a,b,c?min_replicas=1").contains("cannot have `min_replicas`"));

    assert!(refused("redis-sentinel://a,b").contains("names no service"));
    assert!(refused("redis-sentinel://a/x%20y").contains("names no service"));
    assert!(refused("redis-sentinel://a/m/x").contains("number of a database"));
    assert!(refused("redis-sentinel://a,,b/m").contains("no host"));
    assert!(refused("redis-cluster://a:1,a:1").contains("names a:1 twice"));
    assert!(refused("redis-cluster://a/1").contains("no databases"));
    assert!(refused("redis-cluster://a,b:x").contains(NO_PORT));
    assert!(refused("redis://a,b").contains("several servers"));
}

#[cfg(unix)]
#[test]
fn sockets_are_read() {
    let location = Location::parse("redis+unix:///run/redis.sock?db=1&pass=secret").unwrap();
    let endpoint = only(&location);
    assert_eq!(endpoint.address(), &Address::Unix("/run/redis.sock".into()));
    assert_eq!(endpoint.login.password(), Some("secret"));
    assert_eq!(endpoint.to_string(), "redis+unix:///run/redis.sock?***");
    assert!(refused("unix:///run/redis.sock?timeout=1").contains("`db`, `user` and `pass`"));
}

#[test]
fn refusals_say_what_would_do() {
    assert_eq!(
        refused("localhost:6379"),
        "`…` is not a valid store URL: it has no scheme; write `redis://host:6379`"
    );
    assert!(refused("redlock://:pw@h").starts_with("`redlock://…` is not a valid store URL"));
    assert!(refused("redis://h?protocol=s3cret").ends_with("must be `resp2` or `resp3`"));
    for port in [
        "0",
        "65536",
        "99999",
        "-1",
        "x",
        "6379x",
        "9".repeat(30).as_str(),
    ] {
        for login in ["", "me:pw@", ":p@ss@"] {
            let text = refused(&format!("redis://{login}h:{port}/0"));
            assert!(text.contains(NO_PORT), "{port}: {text}");
        }
    }
    assert!(refused("redis://me:pa/ss@h:1").contains("encode `/` as `%2F`"));
    assert!(refused("redis://:pa?ss@h:1").contains("`?` as `%3F`"));
    assert!(refused("redis://:6379").contains("no host"));
    assert!(refused("redis://me:pw@").contains("no host"));
    assert!(refused("redis://::1").contains("IPv6 address without brackets"));
    for login in ["me:%FF", "me:100%", "%zz:pw"] {
        let text = refused(&format!("redis://{login}@h"));
        assert!(text.contains("not percent-encoded UTF-8"), "{text}");
    }
    assert!(refused(" redis://h").contains("white space"));
    assert!(
        refused("redis://localhost?timeout=1")
            .contains("the options are `protocol` and `min_replicas`")
    );
    assert!(refused("redis://localhost/db").contains("number of a database"));
    assert!(refused("redis://user@localhost").contains("user without a password"));
    assert!(refused("redis://p@ss/word@localhost").contains("encode `/` as `%2F`"));
    assert!(refused("redis://").contains("no host"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_password_never_appears(
        before in r"[a-z0-9:/?#@%&=. \\\[\]\n-]{0,6}",
        after in r"[a-z0-9:/?#@%&=. \\\[\]\n-]{0,6}",
        template in prop::sample::select(vec![
            "redis://:PASS@localhost/0", "redis://me:PASS@localhost:6379", "redis://PASS@localhost",
            "rediss://me:PASS@localhost", "redis+unix:///sock?pass=PASS", "unix://me:PASS@/sock",
            "redis-cluster://:PASS@a,b", "redis:me:PASS@localhost", "me:PASS@localhost",
            "redis//:PASS@localhost", "PASS", "redis://:PASS@", "redis://:PASS@host:x/1",
            "PASS://localhost", "redis+PASS://localhost", "memory://PASS", "http://PASS@h",
            "redis-sentinel://:PASS@a:1,b:2", "redis://:PASS@h:0", "redlock://:PASS@a,b,c/1",
            "redis://h?PASS", "redis+unix:///sock?PASS", "redis+unix:///sock?db=PASS",
            "redis-sentinel://a,b/m?sentinel_pass=PASS", "redis://h?PASS=1", "redis://h?min_replicas=PASS",
        ]),
    ) {
        let text = template.replace("PASS", &format!("{before}S3cret{after}"));
        match Location::parse(&text) {
            Ok(location) => {
                let endpoint = location.endpoint(location.addresses()[0].clone());
                let seen = format!("{location} {location:?} {endpoint} {endpoint:?}");
                let seen = seen.to_lowercase();
                prop_assert!(!seen.contains("s3cret"), "{text:?} is shown as {seen}");
            }
            Err(error) => {
                let seen = format!("{error} {error:?}").to_lowercase();
                prop_assert!(!seen.contains("s3cret"), "{text:?} is shown as {seen}");
            }
        }
    }
}
