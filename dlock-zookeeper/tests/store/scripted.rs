//! A server of ZooKeeper that answers as a test wants: no real one loses step with the others on demand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::SystemTime,
};

use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Requests and operations, by their numbers in the protocol.
pub(crate) const DELETE: i32 = 2;
pub(crate) const EXISTS: i32 = 3;
pub(crate) const GET_DATA: i32 = 4;
pub(crate) const SET_DATA: i32 = 5;
pub(crate) const LIST: i32 = 8;
pub(crate) const CHECK: i32 = 13;
pub(crate) const MULTI: i32 = 14;
pub(crate) const CREATE: i32 = 15;
pub(crate) const SYNC: i32 = 9;
pub(crate) const PING: i32 = 11;
const CREATE_CONTAINER: i32 = 19;
pub(crate) const MULTI_READ: i32 = 22;
const SET_WATCHES: i32 = 101;
const WHO_AM_I: i32 = 107;
const ERROR: i32 = -1;

pub(crate) const UNIMPLEMENTED: i32 = -6;
pub(crate) const NO_NODE: i32 = -101;
pub(crate) const NO_AUTH: i32 = -102;
pub(crate) const BAD_VERSION: i32 = -103;
pub(crate) const NODE_EXISTS: i32 = -110;
/// Ends the session of the client. The next one has another number.
pub(crate) const SESSION_EXPIRED: i32 = -112;
/// Said of the operations behind the one that failed.
const NOT_TRIED: i32 = -2;

/// The longest request. A word such as `srvr` begins like one that is longer, and gets no answer.
const LONGEST: usize = 1 << 20;

/// The session of each client, until one is ended.
pub(crate) const SESSION_ID: i64 = 1;

/// The directory of the bases of fences.
pub(crate) const FENCE: &str = "/dlock/fence";
/// Ahead of the clock: no base is replaced because it is late.
pub(crate) const BASE: u64 = 2_000_000_000_000_000;
/// The transactions of a base, and of a child behind it.
pub(crate) const SINCE: i64 = 5;
pub(crate) const CHILD: i64 = 7;

/// The answers about a base that is there, for this server.
pub(crate) fn with_base(request: &Request, base: u64) -> Option<Reply> {
    match request.code {
        LIST if request.path == FENCE => Some(Reply::names(&[&base.to_string()])),
        EXISTS if request.path == format!("{FENCE}/{base}") => Some(Reply::stat(SINCE)),
        _ => None,
    }
}

/// A request of a client.
pub(crate) struct Request {
    pub(crate) code: i32,
    /// Empty for a transaction.
    pub(crate) path: String,
    /// Those of a transaction, or of a request for many nodes: the number and the path of each.
    pub(crate) operations: Vec<(i32, String)>,
}

impl Request {
    /// The numbers of a transaction's operations.
    pub(crate) fn codes(&self) -> Vec<i32> {
        self.operations.iter().map(|(code, _)| *code).collect()
    }
}

/// An answer to a request.
pub(crate) enum Reply {
    /// The request is carried out, with this body of the answer.
    Done(Vec<u8>),
    Refused(i32),
    /// The connection breaks instead.
    Cut,
}

impl Reply {
    pub(crate) fn names(names: &[&str]) -> Self {
        let count = i32::try_from(names.len()).unwrap().to_be_bytes().to_vec();
        let names = names.iter().flat_map(|it| buffer(it.as_bytes()));
        Self::Done(count.into_iter().chain(names).collect())
    }

    /// The names of the children of each node that a request for many names, or that there is none.
    pub(crate) fn names_of_each<'a>(
        request: &Request,
        names: impl Fn(&str) -> Option<&'a [&'a str]>,
    ) -> Self {
        let of_one = |(code, path): &(i32, String)| match names(path).map(Self::names) {
            Some(Self::Done(names)) => [header(*code, false), names].concat(),
            _ => [header(ERROR, false), NO_NODE.to_be_bytes().to_vec()].concat(),
        };
        let answers = request.operations.iter().map(of_one);
        Self::Done(answers.chain([header(ERROR, true)]).flatten().collect())
    }

    pub(crate) fn stat(czxid: i64) -> Self {
        Self::Done(stat(czxid))
    }

    pub(crate) fn data(text: &str, czxid: i64) -> Self {
        Self::Done([buffer(text.as_bytes()), stat(czxid)].concat())
    }

    /// The same of a node that this session owns.
    pub(crate) fn data_of(session: i64, text: &str, czxid: i64) -> Self {
        Self::Done([buffer(text.as_bytes()), stat_of(session, czxid, 0, 0)].concat())
    }

    /// The text of a node that was written just now.
    pub(crate) fn fresh(text: &str, czxid: i64) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = i64::try_from(now.unwrap().as_millis()).unwrap();
        Self::Done([buffer(text.as_bytes()), stat_of(SESSION_ID, czxid, 0, now)].concat())
    }

    /// A transaction is carried out. Each creation has this number, and the sequential one this name. It may have others before
    /// it.
    pub(crate) fn carried_out(request: &Request, czxid: i64, name: &str) -> Self {
        Self::carried_out_among(request, czxid, name, 2)
    }

    /// The same in a directory that has so many children then.
    pub(crate) fn carried_out_among(
        request: &Request,
        czxid: i64,
        name: &str,
        children: i32,
    ) -> Self {
        let results = request.operations.iter().map(|(code, path)| {
            let mut result = header(*code, false);
            match *code {
                CREATE if path.ends_with('-') => {
                    let directory = path.rsplit_once('/').unwrap().0;
                    result.extend(buffer(format!("{directory}/{name}").as_bytes()));
                    result.extend(stat(czxid));
                }
                CREATE => {
                    result.extend(buffer(path.as_bytes()));
                    result.extend(stat(czxid));
                }
                SET_DATA => result.extend(stat_of(SESSION_ID, czxid, children, 0)),
                _ => {}
            }
            result
        });
        Self::Done(results.chain([header(ERROR, true)]).flatten().collect())
    }

    /// A transaction is refused, as there is no node for this operation.
    pub(crate) fn refused_at(request: &Request, failed: usize) -> Self {
        Self::refused_with(request, failed, NO_NODE)
    }

    /// A transaction is refused with this error of an operation.
    pub(crate) fn refused_with(request: &Request, failed: usize, error: i32) -> Self {
        let results = (0..request.operations.len()).map(|index| {
            let code = match index {
                _ if index < failed => 0,
                _ if index == failed => error,
                _ => NOT_TRIED,
            };
            [header(ERROR, false), code.to_be_bytes().to_vec()].concat()
        });
        Self::Done(results.chain([header(ERROR, true)]).flatten().collect())
    }

    /// The answer where a test has none of its own: directories are there, and nothing else is.
    fn usual(request: &Request) -> Self {
        match request.code {
            SYNC => Self::Done(buffer(request.path.as_bytes())),
            PING | SET_WATCHES => Self::Done(Vec::new()),
            CREATE | CREATE_CONTAINER => Self::Refused(NODE_EXISTS),
            _ => Self::Refused(NO_NODE),
        }
    }
}

/// The server. It ends when it is dropped.
pub(crate) struct Scripted {
    port: u16,
    _links: JoinSet<()>,
}

impl Scripted {
    /// Starts a server that answers so, and as usual where there is no answer.
    pub(crate) async fn start(
        answer: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = Arc::new((answer, AtomicI64::new(SESSION_ID)));
        let mut links = JoinSet::new();
        links.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let answer = answer.clone();
                open.spawn(async move {
                    let (answer, session) = &*answer;
                    serve(stream, answer, session).await.ok().map(drop)
                });
            }
        });
        Self {
            port,
            _links: links,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("zookeeper://127.0.0.1:{}?session=40s&tick=500ms", self.port)
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: &impl Fn(&Request) -> Option<Reply>,
    session: &AtomicI64,
) -> io::Result<()> {
    let asked = frame(&mut stream).await?;
    // After the version and the last transaction that the client has seen.
    let time_out = asked.get(12..16).unwrap_or_default();
    let made = [
        &0_i32.to_be_bytes()[..],
        time_out,
        &session.load(Ordering::SeqCst).to_be_bytes(),
        &buffer(&[0; 16]),
        &[0],
    ];
    send(&mut stream, &made.concat()).await?;
    loop {
        let text = frame(&mut stream).await?;
        let mut rest = &text[..];
        let number = rest.read_i32().await?;
        let request = read(rest).await?;
        let reply = answer(&request).unwrap_or_else(|| Reply::usual(&request));
        let (code, body) = match reply {
            Reply::Done(body) => (0, body),
            Reply::Refused(code) => {
                if code == SESSION_EXPIRED {
                    session.fetch_add(1, Ordering::SeqCst);
                }
                (code, Vec::new())
            }
            Reply::Cut => return Ok(()),
        };
        let head = [
            &number.to_be_bytes()[..],
            &1_i64.to_be_bytes(),
            &code.to_be_bytes(),
        ];
        send(&mut stream, &[head.concat(), body].concat()).await?;
    }
}

/// Reads a request behind its number.
async fn read(mut rest: &[u8]) -> io::Result<Request> {
    let code = rest.read_i32().await?;
    let (mut path, mut operations) = (String::new(), Vec::new());
    match code {
        PING | SET_WATCHES | WHO_AM_I => {}
        MULTI | MULTI_READ => loop {
            let kind = code;
            let code = rest.read_i32().await?;
            let is_end = rest.read_u8().await? > 0;
            rest.read_i32().await?;
            if is_end {
                break;
            }
            operations.push((code, text(&mut rest).await?));
            if kind == MULTI_READ {
                // Whether a watch is set.
                rest.read_u8().await?;
                continue;
            }
            if [CREATE, SET_DATA].contains(&code) {
                text(&mut rest).await?;
            }
            if code == CREATE {
                for _ in 0..rest.read_i32().await? {
                    rest.read_i32().await?;
                    text(&mut rest).await?;
                    text(&mut rest).await?;
                }
            }
            // The version, or the flags of a creation.
            rest.read_i32().await?;
        },
        _ => path = text(&mut rest).await?,
    }
    Ok(Request {
        code,
        path,
        operations,
    })
}

async fn text(rest: &mut &[u8]) -> io::Result<String> {
    let length = rest.read_i32().await?;
    let mut text = vec![0; usize::try_from(length).unwrap_or(0)];
    rest.read_exact(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

async fn frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = usize::try_from(stream.read_i32().await?).unwrap_or(0);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

async fn send(stream: &mut TcpStream, frame: &[u8]) -> io::Result<()> {
    stream.write_all(&buffer(frame)).await
}

/// Bytes behind their number.
fn buffer(bytes: &[u8]) -> Vec<u8> {
    let length = i32::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes(), bytes].concat()
}

fn header(code: i32, is_end: bool) -> Vec<u8> {
    let end = [u8::from(is_end)];
    [&code.to_be_bytes()[..], &end, &(-1_i32).to_be_bytes()].concat()
}

/// The state of a node that the first session owns.
fn stat(czxid: i64) -> Vec<u8> {
    stat_of(SESSION_ID, czxid, 0, 0)
}

/// The state of a node with this owner, so many children, and this time of its last write.
fn stat_of(owner: i64, zxid: i64, children: i32, mtime: i64) -> Vec<u8> {
    let (zxid, zero) = (zxid.to_be_bytes(), [0; 8]);
    let (counts, length) = ([0; 12], [0; 4]);
    [
        &zxid[..],
        &zxid,
        &zero,
        &mtime.to_be_bytes(),
        &counts,
        &owner.to_be_bytes(),
        &length,
        &children.to_be_bytes(),
        &zxid,
    ]
    .concat()
}
