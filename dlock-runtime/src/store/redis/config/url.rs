//! The URL of one or several servers.

mod endpoint;
mod location;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    endpoint::{Address, Endpoint},
    location::{Location, UrlLayout},
};
