//! Says which locks were read, and when: a view without locks never looks as if all were free.

use std::{borrow::Cow, time::SystemTime};

use dlock_admin::{Inspect, view::moment};
use dlock_admin_web::Server;

use crate::global::Global;

impl Global {
    /// Returns the namespace that is read: a URL can name another one than the option.
    pub(crate) fn namespace_in_use(&self) -> Cow<'_, str> {
        let (place, query) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let named = self.store().namespace(place, query);
        let named = named.filter(|it| !it.is_empty());
        named.unwrap_or(Cow::Borrowed(&self.namespace))
    }

    /// Returns what was read just now: the namespace, the server, and the time by the clock of this machine.
    pub(crate) async fn reading(&self, inspector: &dyn Inspect) -> String {
        let read = moment(SystemTime::now());
        let server = Server::default().after(&inspector.servers().await);
        let namespace = self.namespace_in_use();
        let server = server.name().unwrap_or("the server");
        format!("namespace `{namespace}` of {server}, read at {read}")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    #[test]
    fn a_url_can_name_the_namespace() {
        for (url, namespace) in [
            ("redis://h:1/3", "option"),
            ("postgres://h/shop", "option"),
            (
                "postgres://u:p@h/shop?sslmode=require&schema=locks",
                "locks",
            ),
            ("postgres://h/shop?schema=", "option"),
            ("zookeeper://a,b", "option"),
            ("zookeeper://a,b/", "option"),
            ("zookeeper://u:p/w@a,b/my/locks?session=8s", "my/locks"),
            ("etcd://a,b?schema=other", "option"),
        ] {
            let words = ["dlock", "--url", url, "--namespace", "option", "ls"];
            let global = Cli::try_parse_from(words).expect("it is valid").global;
            assert_eq!(global.namespace_in_use(), namespace, "{url}");
        }
    }
}
