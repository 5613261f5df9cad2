//! The inspector of Redis as one of any store.

use std::sync::Arc;

use dlock_runtime::{
    LockKey,
    admin::RedisReader,
    store::{OwnerId, StoreError},
};

use super::Inspector;
use crate::{
    doctor::Judge,
    grants::Grants,
    inspect::{Inspect, Inspecting},
    model::{LockInfo, Overview, ServerReport, Unlocked},
};

impl Inspect for Inspector {
    fn locks<'a>(
        &'a self,
        pattern: Option<&'a str>,
    ) -> Inspecting<'a, Result<Vec<LockInfo>, StoreError>> {
        Box::pin(self.list(pattern))
    }

    fn locks_in_parts<'a>(
        &'a self,
        pattern: Option<&'a str>,
        part: &'a mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Inspecting<'a, Result<(), StoreError>> {
        Box::pin(self.list_in_parts(pattern, part))
    }

    fn locks_of<'a>(
        &'a self,
        keys: &'a [LockKey],
    ) -> Inspecting<'a, Result<Vec<LockInfo>, StoreError>> {
        Box::pin(self.list_of(keys))
    }

    fn lock<'a>(
        &'a self,
        key: &'a LockKey,
    ) -> Inspecting<'a, Result<Option<LockInfo>, StoreError>> {
        Box::pin(self.read_one(key))
    }

    fn overview(&self) -> Inspecting<'_, Result<Overview, StoreError>> {
        Box::pin(self.survey_all())
    }

    fn overview_in_parts<'a>(
        &'a self,
        part: &'a mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Inspecting<'a, Result<Overview, StoreError>> {
        Box::pin(self.survey_all_in_parts(part))
    }

    fn unlock<'a>(
        &'a self,
        seen: &'a LockInfo,
        holder: Option<OwnerId>,
    ) -> Inspecting<'a, Result<Unlocked, StoreError>> {
        Box::pin(async move {
            match holder {
                Some(owner) => self.end_one(seen, owner).await,
                None => self.end_all(seen).await,
            }
        })
    }

    fn grants(&self) -> Inspecting<'_, Result<Grants, StoreError>> {
        Box::pin(self.subscribe())
    }

    fn servers(&self) -> Inspecting<'_, Vec<ServerReport>> {
        Box::pin(self.report_all())
    }

    fn judge(&self) -> Arc<dyn Judge> {
        self.judge.clone()
    }

    fn progress(&self) -> Option<f64> {
        let of_servers = self.readers.iter().filter_map(RedisReader::progress);
        of_servers.min_by(f64::total_cmp)
    }

    fn lift_limit(&self) {
        self.readers.iter().for_each(RedisReader::lift_limit);
    }

    fn begin(&self) {
        self.readers.iter().for_each(RedisReader::begin);
    }
}
