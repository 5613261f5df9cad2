//! A user without the standard library, without a prelude, and with every name taken.

#![no_std]
#![no_implicit_prelude]
#![deny(warnings)]
#![allow(dead_code, reason = "most names are only there to be in the way")]

extern crate alloc as heap;

mod alloc {}
mod core {}
mod std {}
mod tokio {}
mod dlock {
    pub(crate) mod __private {}
}

pub struct Result;
pub struct Option;
pub struct String;
pub struct Box;
pub struct Pin;
pub struct Future;
pub struct Duration;
pub struct Some;
pub struct None;
pub struct Ok;
pub struct Err;
pub struct Lease;
pub struct LockGuard;
pub struct LockError;
pub struct LockManager;
pub struct Options;
pub struct Wait;
pub trait From {}
pub trait Into {}
pub trait Send {}
pub trait Drop {}
pub trait KeyPart {}
pub trait Fallible {}
pub trait Skip {}
pub struct OptionalGuard;
#[allow(non_camel_case_types, reason = "it is the case")]
pub struct bool;

pub type Answer<T> = ::core::result::Result<T, ::dlock::LockError>;

#[::dlock::distributed_lock(
    key = "free:<key>:<guard>",
    ttl = "1s",
    wait = "10ms",
    on_lost = finish,
    on_busy = ::core::result::Result::Ok(0),
    lease = lease
)]
pub async fn free(key: u8, guard: u8, output: u8, error: u8, site: u8) -> Answer<u8> {
    let _ = lease;
    ::core::result::Result::Ok(key + guard + output + error + site)
}

#[::dlock::distributed_lock(key = "generic:<__key>", max_hold = "1m", min_hold = "1ms")]
pub async fn generic<'locked, __Value, const LEASE: usize>(
    __key: &'locked str,
    value: __Value,
) -> Answer<(&'locked str, [__Value; LEASE])>
where
    __Value: ::core::marker::Copy + ::core::marker::Send,
{
    ::core::result::Result::Ok((__key, [value; LEASE]))
}

#[::dlock::distributed_lock(
    key = "skip:<id>",
    on_busy = skip,
    enabled = id > 1,
    metric = "skip",
    on_cancel = detach
)]
pub async fn skipped(id: u8) -> Answer<::core::option::Option<u8>> {
    ::core::result::Result::Ok(::core::option::Option::Some(id))
}

#[::dlock::distributed_lock(key = ["a:<keys>", "b:<key>"], crate = ::dlock)]
pub async fn both(keys: u8, key: u8) -> Answer<u8> {
    ::core::result::Result::Ok(keys + key)
}

pub struct Shop {
    pub tenant: u32,
    pub locks: ::dlock::LockManager,
}

impl Shop {
    #[::dlock::distributed_lock(
        key = "shop:<self.tenant>",
        manager = self.locks,
        wait = never,
        on_error = |_error| ::core::option::Option::None
    )]
    pub async fn method(&self) -> ::core::option::Option<u32> {
        ::core::option::Option::Some(self.tenant)
    }

    #[::dlock::distributed_lock(key = "detached", manager = self.locks, on_cancel = detach)]
    pub async fn detached(self) -> Answer<u32> {
        ::core::result::Result::Ok(self.tenant)
    }
}

#[::dlock::distributed_lock(key = "boxed:<id>", lease = __lease)]
pub fn boxed(
    id: u8,
) -> ::core::pin::Pin<
    ::heap::boxed::Box<dyn ::core::future::Future<Output = Answer<u8>> + ::core::marker::Send>,
> {
    ::heap::boxed::Box::pin(async move {
        let _ = __lease;
        ::core::result::Result::Ok(id)
    })
}

macro_rules! made {
    ($name:ident, $self:ident.$field:ident: $ty:ty, $key:literal, $krate:path, $body:block) => {
        impl Shop {
            #[::dlock::distributed_lock(key = $key, crate = $krate, manager = $self.locks)]
            pub async fn $name(&$self, $field: $ty) -> Answer<$ty> $body
        }
    };
}
made!(made, self.tenant: u32, "made:<self.tenant>/<tenant>", ::dlock, {
    ::core::result::Result::Ok(self.tenant + tenant)
});
