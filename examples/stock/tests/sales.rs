//! The program shows a late write, with and without the comparison that refuses it.

use std::{process::Command, time::Duration};

use dlock_testkit::{EtcdServer, Worker};

/// Much longer than a run takes, also on a loaded machine.
const LIMIT: Duration = Duration::from_secs(180);

/// The exit code and the standard output of the program.
async fn run(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stock"));
    let program = Worker::spawn(command.args(arguments));
    let status = program.wait(LIMIT).await;
    let code = status.code().expect("it is not killed");
    (code, program.stdout() + &program.stderr())
}

#[tokio::test]
async fn etcd_refuses_the_write_of_a_seller_that_slept_through_its_lease() {
    let server = EtcdServer::start().await;
    let (code, said) = run(&[&server.url()]).await;
    assert!(
        !said.contains("sold 2 of 1"),
        "broken promise: a late write was accepted: {said}"
    );
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("prompt: sold it\nlate: the lease has ended"),
        "{said}"
    );
    assert_eq!(server.keys("stock/").await, [""; 0]);
}

#[tokio::test]
async fn without_the_comparison_the_item_is_sold_twice() {
    let server = EtcdServer::start().await;
    let (code, said) = run(&[&server.url(), "--without-compare"]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("sold 2 of 1"), "{said}");
}

#[tokio::test]
async fn a_url_with_several_members_is_refused() {
    let (code, said) = run(&["etcd://a,b"]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("`etcd://a,b`"), "{said}");
}
