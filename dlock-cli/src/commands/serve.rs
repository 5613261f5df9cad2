//! `dlock serve`: a page that shows all locks in a browser.

mod address;
mod server;
mod token;

use std::{
    future::pending,
    net::SocketAddr,
    path::PathBuf,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use clap::Args;
use dlock_admin::Inspect;
use dlock_admin_web::Page;
use serde_json::json;
use tokio::{sync::watch, time::timeout};

use self::{server::Limits, token::Token};
use crate::{
    exit::{Exit, Failure, note},
    global::Global,
    interrupt::interrupted,
    output,
};

/// The time for which responses under way may go on after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// Serves a page that shows all locks in a browser
///
/// The page shows locks, holders, waiters and processes, live, and the findings of `dlock doctor`.
/// The locks are read only while a browser shows the page, once for all browsers, and in any
/// minute in at most 5 % of the server's time. If the server does not answer, the page says so
/// and stays.
///
/// The page asks for no password: each client that can reach it sees all keys and holders. It is
/// served to this machine alone, unless `--listen` names another address. It answers at IP
/// addresses, at `localhost`, and at the names of `--host`. It is read-only, unless
/// `--allow-unlock` is given. The program ends with code 0 after Ctrl-C and `SIGTERM`.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServeArgs {
    /// The address and port to listen on; port 0 is any free one.
    /// Other machines can reach an address that is not a
    /// loopback address: put a proxy with a login before it
    #[arg(
        long,
        verbatim_doc_comment,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8330"
    )]
    listen: String,
    /// A name of this server in the address of the page, such as
    /// that of a proxy before it; can be repeated
    #[arg(long, verbatim_doc_comment, value_name = "NAME", value_parser = address::name)]
    host: Vec<String>,
    /// The time between two readings, 100ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = super::top::interval)]
    interval: Duration,
    /// Lets the page release a lock by force. It asks for a token:
    /// that of `--token-file`, else of the variable
    /// `DLOCK_SERVE_TOKEN`, else a random one that is printed.
    /// Each release is printed to the standard error
    #[arg(long, verbatim_doc_comment)]
    allow_unlock: bool,
    /// A file with the token: at least 16 random characters
    #[arg(long, value_name = "FILE", requires = "allow_unlock")]
    token_file: Option<PathBuf>,
}

pub(crate) async fn run(global: &Global, args: ServeArgs) -> Result<Exit, Failure> {
    // Signals count from here on.
    let signal = interrupted();
    let token = if args.allow_unlock {
        Some(Token::find(args.token_file.as_deref())?)
    } else {
        None
    };
    let listener = address::bind(&args.listen).await?;
    let address = listener.local_addr()?;
    print(global, address, token.as_ref())?;
    let first = First::default();
    let (end, ended) = watch::channel(false);
    let mut page = page(global, first.clone())
        .hosts(args.host)
        .namespace(&*global.namespace_in_use())
        .interval(args.interval)
        .until(is_true(ended.clone()));
    if let Some(judge) = global.judge()? {
        page = page.judged_by(judge);
    }
    if let Some(token) = token {
        page = page.allow_unlock(token.text);
    }
    let router = page.into_router();
    let mut serving = pin!(server::serve(
        listener,
        router,
        Limits::USUAL,
        is_true(ended)
    ));
    tokio::select! {
        // A mistake in the URL is no outage.
        failure = mistake(global, &first) => return Err(failure),
        () = &mut serving => {}
        _ = signal => {
            end.send_replace(true);
            // A client that does not read its response would hold the program up.
            drop(timeout(GRACE, serving).await);
        }
    }
    Ok(Exit::Success)
}

async fn is_true(mut value: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is the end, too.
    drop(value.wait_for(|is_true| *is_true).await);
}

/// The first connection, until the page uses it.
#[derive(Clone, Default)]
struct First(Arc<Mutex<Option<Arc<dyn Inspect>>>>);

impl First {
    fn put(&self, inspector: Arc<dyn Inspect>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(inspector);
    }

    fn take(&self) -> Option<Arc<dyn Inspect>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn page(global: &Global, first: First) -> Page {
    let global = global.clone();
    Page::connecting(move || {
        let (global, first) = (global.clone(), first.take());
        async move {
            match first {
                Some(inspector) => Ok(inspector),
                None => global.inspector().await,
            }
        }
    })
}

/// Connects once. Returns a failure only if the arguments are wrong: no later attempt would succeed.
async fn mistake(global: &Global, first: &First) -> Failure {
    match global.inspector().await {
        Ok(inspector) => first.put(inspector),
        Err(failure) if failure.exit() == Exit::Usage => return failure,
        Err(failure) => note(
            global.json,
            &format!("{failure}. The page says so and goes on"),
        ),
    }
    pending().await
}

fn print(global: &Global, address: SocketAddr, token: Option<&Token>) -> Result<(), Failure> {
    let url = address::url(address);
    let drawn = token.filter(|token| token.is_drawn);
    if global.json {
        let token = drawn.map(|token| &token.text);
        output::document(&json!({ "url": url, "token": token }))?;
    } else {
        output::line(&format!("The page is at {url}"))?;
        if let Some(token) = drawn {
            output::line(&format!("The token to release locks: {}", token.text))?;
        }
    }
    if !address.ip().is_loopback() {
        let token = if token.is_some() {
            ". The token that releases locks passes the network without encryption"
        } else {
            ""
        };
        let text = format!(
            "other machines can reach {address}, and the page asks for no password: each client that reaches it sees all keys \
             and holders{token}. Put a proxy with a login and TLS before it"
        );
        note(global.json, &text);
    }
    Ok(())
}
