//! One table of cases for the URLs of all stores: what each of them refuses, and with which words. No server is needed.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

use std::{env, fs, process::Command};

use dlock::{ConnectError, LockManager};
use dlock_etcd::Etcd;
use dlock_postgres::Postgres;
use dlock_testkit::{Authority, Identity};
use dlock_zookeeper::ZooKeeper;

/// A store, and what stands for the words of a case in its URLs.
struct Store {
    name: &'static str,
    words: [(&'static str, &'static str); 9],
}

const STORES: [Store; 4] = [
    Store {
        name: "redis",
        words: [
            ("{secure}", "rediss"),
            ("{list}", "redis-cluster"),
            ("{one}", "redis"),
            ("{path}", ""),
            ("{tls}", ""),
            ("{root}", "ca"),
            ("{cert}", "cert"),
            ("{key}", "key"),
            ("{option}", "protocol=resp3"),
        ],
    },
    of_ssl("postgres", "/shop"),
    of_ssl("etcd", ""),
    of_ssl("zookeeper", ""),
];

const fn of_ssl(name: &'static str, path: &'static str) -> Store {
    Store {
        name,
        words: [
            ("{secure}", name),
            ("{list}", name),
            ("{one}", name),
            ("{path}", path),
            ("{tls}", "sslmode=require&"),
            ("{root}", "sslrootcert"),
            ("{cert}", "sslcert"),
            ("{key}", "sslkey"),
            ("{option}", "sslmode=disable"),
        ],
    }
}

impl Store {
    fn filled(&self, text: &str) -> String {
        let words = self.words.iter();
        words.fold(text.to_owned(), |text, (word, by)| text.replace(word, by))
    }

    /// Reads a URL, which begins to connect if it is right.
    fn read(&self, url: &str) -> Result<(), ConnectError> {
        let builder = LockManager::builder();
        let builder = builder.scheme("postgres", Postgres).scheme("etcd", Etcd);
        let builder = builder.scheme("zookeeper", ZooKeeper);
        builder.connect_lazy(self.filled(url)).map(drop)
    }

    fn refusal(&self, url: &str) -> String {
        let url = self.filled(url);
        let error = self.read(&url).expect_err(&url).to_string();
        assert!(!error.contains("hush"), "{url}: {error}");
        error
    }

    fn has_tls(&self) -> bool {
        let has_tls = self.name != "zookeeper" || cfg!(feature = "zookeeper-tls");
        #[cfg(feature = "zookeeper-tls")]
        // The client of ZooKeeper takes that of the process.
        tokio_rustls::rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        has_tls
    }
}

const PORT: &str = "a port is not a number from 1 to 65535";
const NO_HOST: &str = "no host";
const ENCODED: &str =
    "the user or the password is not percent-encoded UTF-8; write `%25` for a `%`";

#[tokio::test]
async fn every_store_refuses_a_wrong_url_with_the_same_words() {
    for (url, why) in [
        ("{one}://shop:hush@a:0{path}", PORT),
        ("{one}://shop:hush@a:65536{path}", PORT),
        ("{one}://shop:hush@a:x{path}", PORT),
        ("{one}://shop:hush@a:+80{path}", PORT),
        ("{one}://shop:hush@a:{path}", PORT),
        ("{one}://shop:hush@[::1]:0{path}", PORT),
        // It has no host: the password is read as a port.
        ("{one}://shop:hush{path}", PORT),
        (
            "{one}://shop:hush@::1{path}",
            "an IPv6 address without brackets",
        ),
        ("{one}://shop:hush@{path}", NO_HOST),
        ("{one}://shop:hush@:7000{path}", NO_HOST),
        ("{list}://shop:hush@a,,b{path}", NO_HOST),
        ("{list}://shop:hush@a,{path}", NO_HOST),
        (
            "{one}://shop:hush@a$b{path}",
            "a character that host names do not have",
        ),
        (
            "{one}://shop:hush@[a]{path}",
            "a character that host names do not have",
        ),
        (
            "{list}://shop:hush@a:7,b,a:7{path}",
            "it names a:7 twice; name each server once",
        ),
        ("{one}://shop:%FFhush@a{path}", ENCODED),
        ("{one}://shop:hush100%@a{path}", ENCODED),
        ("{one}://%zz:hush@a{path}", ENCODED),
        ("{one}://shop:7?hush@a{path}", "%3F"),
        ("{one}://shop:7?hush=x@a{path}", "%3F"),
        (
            "{one}://shop:hush@a{path}?{option}&{option}",
            "twice; set it once",
        ),
        ("{one}://shop:hush@a{path}?colour=hush", "unknown"),
    ] {
        for store in &STORES {
            let error = store.refusal(url);
            assert!(error.contains(why), "{url}: {}: {error}", store.name);
            assert!(error.contains("is not a valid store URL"), "{error}");
        }
    }
}

#[tokio::test]
async fn every_store_takes_a_right_url() {
    for url in [
        "{one}://shop:hush@127.0.0.1:1{path}",
        "{one}://shop:p%40ss+1%25@127.0.0.1:1{path}",
        "{one}://shop:hush@[::1]:65535{path}",
        "{one}://shop:hush@[::1]{path}",
        "{one}://shop:hush@zk_1.a-b.invalid:1{path}",
        "{list}://shop:hush@127.0.0.1:1,127.0.0.1:2,[::1]{path}",
        "{one}://shop:hush@127.0.0.1:1{path}?{option}",
    ] {
        for store in &STORES {
            let read = store.read(url);
            assert!(read.is_ok(), "{url}: {}: {read:?}", store.name);
        }
    }
}

/// Files with certificates, right and wrong ones.
struct Files {
    authority: Authority,
    own: Identity,
    other: Identity,
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let authority = Authority::new();
        let (own, other) = (authority.issue(&["shop"]), authority.issue(&["shop"]));
        let directory = tempfile::tempdir().unwrap();
        let files = Self {
            authority,
            own,
            other,
            directory,
        };
        let encrypted = files.own.key_pem().replace("PRIVATE", "ENCRYPTED PRIVATE");
        let hollow = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        let (_, list) = files.authority.issue_revoked(&["db"]);
        let authority = files.authority.ca_pem();
        for (name, text) in [
            ("encrypted", &*encrypted),
            ("hollow", hollow),
            ("empty", ""),
            ("garbage", "hush"),
            ("with-hollow", &format!("{hollow}{authority}")),
            ("with-list", &format!("{authority}{list}")),
        ] {
            fs::write(files.directory.path().join(name), text).unwrap();
        }
        files
    }

    /// Names the files in a URL: `<ca>`, `<cert>`, `<key>`, `<other key>`, and `<…>` for those of the directory.
    fn named(&self, url: &str) -> String {
        let directory = self.directory.path().display().to_string();
        [
            ("<ca>", self.authority.ca_file()),
            ("<cert>", self.own.cert_file()),
            ("<key>", self.own.key_file()),
            ("<other key>", self.other.key_file()),
        ]
        .iter()
        .fold(url.to_owned(), |url, (name, file)| {
            url.replace(name, &file.display().to_string())
        })
        .replace('<', &format!("{directory}/"))
        .replace('>', "")
    }
}

/// The beginning of a URL with TLS, before options.
const SECURE: &str = "{secure}://shop:p@127.0.0.1:1{path}?{tls}";

const NO_CERTIFICATE: &str = "it contains no certificate in PEM format";

#[tokio::test]
async fn every_store_refuses_certificates_with_the_same_words() {
    let files = Files::new();
    for (options, why) in [
        ("{root}=/none.pem", "`/none.pem`: No such file"),
        ("{root}=<empty>", NO_CERTIFICATE),
        ("{root}=<garbage>", NO_CERTIFICATE),
        ("{root}=<key>", NO_CERTIFICATE),
        ("{root}=<hollow>", "its certificates are invalid"),
        ("{root}=/-----BEGIN%20hush", "of a file"),
        ("{root}=<ca>&{cert}=<cert>", "both"),
        ("{root}=<ca>&{key}=<key>", "both"),
        ("{root}=<ca>&{cert}=<garbage>&{key}=<key>", NO_CERTIFICATE),
        (
            "{root}=<ca>&{cert}=<cert>&{key}=<garbage>",
            "it contains no private key in PEM format",
        ),
        (
            "{root}=<ca>&{cert}=<cert>&{key}=<encrypted>",
            "use a key without a passphrase",
        ),
        (
            "{root}=<ca>&{cert}=<cert>&{key}=<other key>",
            "it is no key of the certificate",
        ),
    ] {
        let options = files.named(options);
        for store in STORES.iter().filter(|store| store.has_tls()) {
            let error = store.refusal(&format!("{SECURE}{options}"));
            assert!(error.contains(why), "{options}: {}: {error}", store.name);
        }
    }
}

#[tokio::test]
async fn every_store_takes_certificates_that_can_be_used() {
    let files = Files::new();
    for options in [
        "{root}=<ca>",
        "{root}=<with-hollow>",
        "{root}=<with-list>",
        "{root}=<ca>&{cert}=<cert>&{key}=<key>",
    ] {
        let options = files.named(options);
        for store in STORES.iter().filter(|store| store.has_tls()) {
            let read = store.read(&format!("{SECURE}{options}"));
            assert!(read.is_ok(), "{options}: {}: {read:?}", store.name);
        }
    }
}

/// Set for a process on a machine without authorities.
const CHILD: &str = "DLOCK_TEST_WITHOUT_AUTHORITIES";

/// Otherwise no connection would be made, and each error would name the server's certificate.
#[tokio::test]
async fn every_store_refuses_tls_on_a_machine_without_authorities() {
    if env::var_os(CHILD).is_some() {
        for store in STORES.iter().filter(|store| store.has_tls()) {
            let error = store.refusal(SECURE);
            let why = store.filled("install `ca-certificates`, or set `{root}`");
            assert!(error.contains(&why), "{}: {error}", store.name);
        }
        return;
    }
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    let test = "every_store_refuses_tls_on_a_machine_without_authorities";
    command
        .args(["--exact", test])
        .env(CHILD, "1")
        .env("SSL_CERT_FILE", "/dev/null")
        .env("SSL_CERT_DIR", nowhere.path());
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}
