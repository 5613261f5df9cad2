//! The hosts of a URL, each with a configuration of its own.

use std::str::FromStr;

use dlock_net::UrlText;
use tokio_postgres::config::{Host, LoadBalanceHosts};

/// Reads what tokio-postgres knows of a URL: one configuration for each host, and at least one.
///
/// A host that does not answer would otherwise use up the time of those behind it.
pub(crate) fn each(url: &str) -> Result<Vec<tokio_postgres::Config>, String> {
    let parse = |url: &str| {
        tokio_postgres::Config::from_str(url).map_err(|error| {
            // The text of the source names the option, and no value of it.
            let source = std::error::Error::source(&error).map(ToString::to_string);
            source.unwrap_or_else(|| error.to_string())
        })
    };
    let all = parse(url)?;
    let UrlText {
        scheme,
        login,
        hosts,
        path,
        query,
    } = UrlText::split(url);
    let places: Vec<_> = hosts.split(',').collect();
    let is_plain = all.get_hosts().len() == places.len() && all.get_hostaddrs().is_empty();
    if places.len() == 1 || !is_plain || all.get_load_balance_hosts() != LoadBalanceHosts::Disable {
        return Ok(vec![all]);
    }
    let login = login.map_or_else(String::new, |login| format!("{login}@"));
    let each = places.into_iter();
    each.map(|place| parse(&format!("{scheme}://{login}{place}/{path}?{query}")))
        .collect()
}

/// The host of a configuration with one host.
pub(crate) fn name(config: &tokio_postgres::Config) -> String {
    match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config
            .get_hostaddrs()
            .first()
            .map(ToString::to_string)
            .unwrap_or_default(),
    }
}

/// `host:port` of a configuration with one host.
pub(crate) fn place(config: &tokio_postgres::Config) -> String {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{}:{port}", name(config))
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::TargetSessionAttrs;

    use super::*;

    #[test]
    fn each_host_has_a_configuration_of_its_own() {
        let url = "postgres://shop:pass@db-1:5433,[::1],db-3/shop?target_session_attrs=read-write";
        let hosts = each(url).unwrap();
        let places: Vec<_> = hosts.iter().map(place).collect();
        assert_eq!(places, ["db-1:5433", "::1:5432", "db-3:5432"]);
        for host in hosts {
            let login = (host.get_user(), host.get_password(), host.get_dbname());
            assert_eq!(login, (Some("shop"), Some(&b"pass"[..]), Some("shop")));
            let attributes = host.get_target_session_attrs();
            assert_eq!(attributes, TargetSessionAttrs::ReadWrite);
        }
        let random = each("postgres://shop@db-1,db-2/shop?load_balance_hosts=random");
        assert_eq!(random.unwrap().len(), 1);
    }

    #[test]
    fn a_host_is_named_by_what_the_url_says_of_it() {
        for (url, named) in [
            ("postgres://shop@db/shop", "db:5432"),
            ("postgres://shop@db:5433/shop", "db:5433"),
            ("postgres://shop@%2Ftmp%2Fpg/shop", "/tmp/pg:5432"),
            (
                "postgres://shop@/shop?hostaddr=10.0.0.7&port=5433",
                "10.0.0.7:5433",
            ),
            ("postgres://shop@db/shop?hostaddr=10.0.0.7", "db:5432"),
        ] {
            let hosts = each(url).unwrap();
            assert_eq!((hosts.len(), &*place(&hosts[0])), (1, named), "{url}");
        }
        assert_eq!(place(&tokio_postgres::Config::new()), ":5432");
    }

    #[test]
    fn hosts_are_told_apart_where_the_url_names_them_before_its_path() {
        for (url, count) in [
            ("postgres://shop@a,b", 2),
            ("postgres://shop@a,b?connect_timeout=3", 2),
            ("postgres://a,b/shop?user=shop", 2),
            ("postgres://shop@a/shop?host=b", 1),
            ("postgres://shop@a,b/shop?hostaddr=10.0.0.7,10.0.0.8", 1),
            ("host=a,b user=shop", 1),
        ] {
            let hosts = each(url).unwrap();
            assert_eq!(hosts.len(), count, "{url}");
        }
        let error = each("postgres://shop@a,b/shop?colour=red").unwrap_err();
        assert!(
            error.contains("colour") && !error.contains("red"),
            "{error}"
        );
    }
}
