use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
async fn serve() -> ! {
    loop {
        std::future::pending::<()>().await;
    }
}

fn main() {}
