//! Errors of the client as errors of a store.

use dlock_runtime::store::{StoreError, StoreErrorKind};
use zookeeper_client::Error;

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    Client(Error),
    Store(StoreError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Client(error) => store_error(&error),
            Self::Store(error) => error,
        }
    }
}

pub(crate) fn store_error(error: &Error) -> StoreError {
    let kind = match error {
        Error::NoHosts => StoreErrorKind::Unreachable,
        Error::ConnectionLoss
        | Error::SessionExpired
        | Error::SessionMoved
        | Error::ClientClosed
        // The client reports a connection that was reset or fell silent in this way, to each request under way.
        | Error::Custom(_)
        | Error::UnexpectedError(_) => StoreErrorKind::Disconnected,
        Error::Timeout => StoreErrorKind::TimedOut,
        Error::NoAuth | Error::InvalidAcl => StoreErrorKind::Denied,
        Error::AuthFailed => StoreErrorKind::Unauthenticated,
        Error::NotReadOnly => StoreErrorKind::ReadOnly,
        Error::QuotaExceeded | Error::Throttled => StoreErrorKind::Refused,
        Error::Unimplemented => StoreErrorKind::Unsupported,
        _ => StoreErrorKind::BadAnswer,
    };
    StoreError::new(kind, format!("ZooKeeper: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };
    use zookeeper_client::Client;

    use super::*;

    async fn request(stream: &mut TcpStream) {
        let length = stream.read_i32().await.unwrap();
        let mut body = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut body).await.unwrap();
    }

    async fn answer(stream: &mut TcpStream, parts: &[&[u8]]) {
        let body = parts.concat();
        let length = i32::try_from(body.len()).unwrap();
        stream.write_i32(length).await.unwrap();
        stream.write_all(&body).await.unwrap();
    }

    /// Makes a session, and resets its connection at the first request.
    async fn reset_one(listener: TcpListener) {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_zero_linger().unwrap();
        request(&mut stream).await;
        let (version, time_out) = (0_i32.to_be_bytes(), 10_000_i32.to_be_bytes());
        let (session, password) = (1_i64.to_be_bytes(), [&16_i32.to_be_bytes()[..], &[0; 16]]);
        let is_read_only = [0];
        let made = [
            &version[..],
            &time_out,
            &session,
            &password.concat(),
            &is_read_only,
        ];
        answer(&mut stream, &made).await;
        request(&mut stream).await;
        let (ping, zxid, no_error) = ((-2_i32).to_be_bytes(), [0; 8], [0; 4]);
        answer(&mut stream, &[&ping, &zxid, &no_error]).await;
        request(&mut stream).await;
    }

    #[tokio::test]
    async fn a_broken_connection_is_no_wrong_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(reset_one(listener));
        let client = Client::connect(&host).await.unwrap();
        let reset = client.check_stat("/").await.unwrap_err();
        server.await.unwrap();
        let lost = Error::UnexpectedError("a response without a request".to_owned());
        for error in [reset, lost] {
            assert_eq!(
                store_error(&error).kind(),
                StoreErrorKind::Disconnected,
                "{error:?}"
            );
        }
    }

    #[test]
    fn each_error_has_the_kind_by_which_callers_go_on() {
        use StoreErrorKind as Kind;

        for (error, kind) in [
            (Error::NoHosts, Kind::Unreachable),
            (Error::ConnectionLoss, Kind::Disconnected),
            (Error::SessionExpired, Kind::Disconnected),
            (Error::SessionMoved, Kind::Disconnected),
            (Error::ClientClosed, Kind::Disconnected),
            (Error::Timeout, Kind::TimedOut),
            (Error::NoAuth, Kind::Denied),
            (Error::InvalidAcl, Kind::Denied),
            (Error::AuthFailed, Kind::Unauthenticated),
            (Error::NotReadOnly, Kind::ReadOnly),
            (Error::QuotaExceeded, Kind::Refused),
            (Error::Throttled, Kind::Refused),
            (Error::Unimplemented, Kind::Unsupported),
            (Error::NotEmpty, Kind::BadAnswer),
        ] {
            let told = store_error(&error);
            assert_eq!(told.kind(), kind, "{error:?}");
            assert_eq!(told.message(), format!("ZooKeeper: {error}"));
        }
    }
}
