//! The requests as statements: each is one call of a function of the schema.

use tokio_postgres::{Error, types::Type};

use crate::schema::Schema;

static ACQUIRE: [Type; 7] = [
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT4,
    Type::BOOL,
    Type::TEXT,
    Type::TEXT,
];

static RELEASE: [Type; 2] = [Type::TEXT, Type::TEXT];

static RENEW: [Type; 5] = [
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
];

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Acquire,
    Release,
    Renew,
    Sweep,
}

impl Call {
    /// In the order of their declaration.
    pub(crate) const ALL: [Self; 4] = [Self::Acquire, Self::Release, Self::Renew, Self::Sweep];

    /// Those that are sent often, which are the first.
    pub(crate) const OFTEN: [Self; 3] = [Self::Acquire, Self::Release, Self::Renew];

    pub(crate) fn text(self, schema: &Schema) -> String {
        schema.fill(match self {
            Self::Acquire => "SELECT * FROM {schema}.acquire($1, $2, $3, $4, $5, $6, $7)",
            Self::Release => "SELECT {schema}.release($1, $2)",
            Self::Renew => "SELECT {schema}.renew($1, $2, $3, $4, $5)",
            Self::Sweep => "SELECT {schema}.sweep()",
        })
    }

    /// Returns the types of its parameters.
    pub(crate) fn types(self) -> &'static [Type] {
        match self {
            Self::Acquire => &ACQUIRE,
            Self::Release => &RELEASE,
            Self::Renew => &RENEW,
            Self::Sweep => &[],
        }
    }
}

/// The reason why a request has no answer of its own.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The error of the server, or of the connection.
    Postgres(Error),
    /// The pooler has given it the answer to another request.
    OfOthers,
    /// The connection was given up before.
    Unsent,
    /// The store was closed.
    Closed,
}

impl Failure {
    /// Returns `true` if the server has answered with an error.
    pub(crate) fn is_of_server(&self) -> bool {
        matches!(self, Self::Postgres(error) if error.as_db_error().is_some())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Postgres(error)
    }
}
