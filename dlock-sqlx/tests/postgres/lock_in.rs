//! Locks that end with a transaction.

use crate::{database::Database, isolation::lock_in::cases_of_lock_in};

cases_of_lock_in! { Database }
