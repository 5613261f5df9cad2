use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
unsafe extern "C" {
    fn pay();
}

fn main() {}
