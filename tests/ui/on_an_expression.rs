// mistakes: 4
use dlock::distributed_lock;

fn main() {
    let _closure = #[distributed_lock(key = "jobs")] || 1;
    let _block = #[distributed_lock(key = "jobs")] async { 1 };
}
