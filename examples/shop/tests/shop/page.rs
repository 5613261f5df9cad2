//! The page and its endpoints, in a copy with locks in memory.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::shop::Shop;

/// Starts a copy without a server. Returns it with the folder of its orders.
async fn start(arguments: &[&str]) -> (Shop, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let database: PathBuf = directory.path().join("shop.db");
    let shop = Shop::start(None, &database, arguments).await;
    (shop, directory)
}

/// The paths that the page's script requests, with `order` as the number of the order.
fn endpoints(page: &str, order: i64) -> Vec<String> {
    let mut endpoints = Vec::new();
    for (position, _) in page.match_indices("/api/") {
        let path = &page[position..];
        let path = &path[..path.find(['"', '`']).unwrap()];
        endpoints.push(path.replace("${order.id}", &order.to_string()));
    }
    endpoints
}

#[tokio::test]
async fn the_page_requests_existing_endpoints() {
    let (shop, _directory) = start(&["--provider-delay", "0s"]).await;
    let page = shop.get("/").await;
    assert_eq!(
        (page.status, page.content_type.as_str()),
        (200, "text/html; charset=utf-8")
    );
    let order = shop.order("a lamp").await;

    let endpoints = endpoints(&page.text, order);
    let expected = ["pay", "pay-to-the-end"].map(|how| format!("/api/orders/{order}/{how}"));
    for path in expected {
        assert!(endpoints.contains(&path), "{endpoints:?}");
        assert_eq!(shop.post(&path).await.status, 200, "{path}");
    }
    for path in endpoints.iter().filter(|path| !path.contains("/pay")) {
        let answer = shop.get(path).await;
        // The endpoint for new orders accepts only POST.
        let there = answer.status == 200 || path == "/api/orders" && answer.status == 405;
        assert!(there, "{path}: {answer:?}");
    }
    // The page loads nothing from other hosts.
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.text.contains(outside), "{outside}");
    }
}

/// Otherwise `This order is being paid` would stand beside `Paid`.
#[tokio::test]
async fn the_message_about_a_busy_order_disappears_when_it_is_paid() {
    let (shop, _directory) = start(&[]).await;
    let page = shop.get("/").await.text;
    let said = r#"say(row.message, "busy","#;
    assert_eq!(
        page.matches(said).count(),
        1,
        "the message has the class `busy`"
    );
    let (_, drawn) = page.split_once("\nfunction show(").unwrap();
    let (_, paid) = drawn.split_once("if (order.paid_by !== null) {").unwrap();
    let (paid, _) = paid.split_once("\n  } else").unwrap();
    let taken_back = r#"if (row.message.classList.contains("busy")) say(row.message, "", "");"#;
    assert!(paid.contains(taken_back), "{paid}");
}

#[tokio::test]
async fn names_of_items_are_never_html() {
    const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&</script><script>alert(2)</script>";
    let (shop, _directory) = start(&[]).await;
    let order = shop.order(HOSTILE).await;
    let state = shop.get("/api/state").await;
    assert_eq!(state.content_type, "application/json");
    assert_eq!(shop.look(order).await["item"], HOSTILE);

    // The page contains no data, and its script cannot turn data into HTML.
    let page = shop.get("/").await.text;
    assert!(!page.contains("alert("), "{page}");
    for way in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "srcdoc",
    ] {
        assert!(!page.contains(way), "{way}");
    }
}

#[tokio::test]
async fn every_field_and_button_has_a_name() {
    let (shop, _directory) = start(&[]).await;
    let page = shop.get("/").await.text;
    let count = |text: &str| page.matches(text).count();
    assert!(
        count("<input") > 0 && count("<input") == count("<label"),
        "{page}"
    );
    assert!(page.contains("lang=\"en\"") && page.contains("role=\"status\""));
    assert_eq!(count("<button"), count("</button>"));
    assert!(!page.contains("></button>"), "a button has a text");
}

#[tokio::test]
async fn a_copy_without_a_server_says_how_to_run_several() {
    let (shop, _directory) = start(&["--provider-delay", "50ms"]).await;
    shop.process
        .line("DLOCK_URL=redis://", crate::shop::LIMIT)
        .await;
    let state = shop.state().await;
    assert_eq!(state["locks"]["kind"], "memory");
    assert!(
        state["locks"]["note"]
            .as_str()
            .unwrap()
            .contains("DLOCK_URL")
    );

    let order = shop.order("a lamp").await;
    let path = format!("/api/orders/{order}/pay");
    let answers = tokio::join!(shop.post(&path), shop.post(&path), shop.post(&path));
    let outcomes = [answers.0, answers.1, answers.2].map(|answer| answer.outcome());
    assert_eq!(
        outcomes.iter().filter(|it| *it == "paid").count(),
        1,
        "{outcomes:?}"
    );
    let charges = &shop.look(order).await["charges"];
    assert_eq!(*charges, 1, "broken promise: it was not charged once");
}

#[tokio::test]
async fn invalid_input_is_refused_with_a_reason() {
    let (shop, _directory) = start(&["--provider-delay", "0s"]).await;
    let long = "x".repeat(81);
    for (item, cents, says) in [
        ("  ", 100, "1 to 80"),
        (&long, 100, "1 to 80"),
        ("a\u{1b}[2J", 100, "control characters"),
        ("a lamp", 0, "0.01"),
        ("a lamp", -1, "0.01"),
        ("a lamp", i64::MAX, "100000.00"),
    ] {
        let answer = shop.try_order(item, cents).await;
        assert_eq!(answer.status, 422, "{item} {cents}: {answer:?}");
        assert_eq!(answer.content_type, "application/problem+json");
        assert!(
            answer.json()["detail"].as_str().unwrap().contains(says),
            "{answer:?}"
        );
    }
    let none = shop.post("/api/orders/77/pay").await;
    assert_eq!(
        (none.status, &none.json()["detail"]),
        (404, &"order 77 does not exist".into())
    );
    for path in ["/api/orders/x/pay", "/api/orders/99999999999999999999/pay"] {
        assert_eq!(shop.post(path).await.status, 400, "{path}");
    }
    assert_eq!(shop.state().await["orders"].as_array().unwrap().len(), 0);
}
