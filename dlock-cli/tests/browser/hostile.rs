//! Keys and holders that any client of the store can write.

use super::site::Site;
use super::{KEYS, text};

const SCRIPT: &str = "<script>window.broken=1</script>";
const IMAGE: &str = "<img src=x onerror=window.broken=1>";

/// Keys, each with how the page shows it.
fn hostile() -> Vec<(String, String)> {
    let same = |key: &str| (key.to_owned(), key.to_owned());
    let long = format!("tenant:{}:end", "x".repeat(501));
    let cut = format!("{}…{}", &long[..38], &long[512 - 25..]);
    vec![
        same(SCRIPT),
        same(IMAGE),
        same("."),
        same(".."),
        same("a/b"),
        same("a%2Fb?c=d#e&f+g"),
        same("file:ä%2Fb"),
        (
            "invoice:\u{202e}gpj.exe\u{202c}".to_owned(),
            "invoice:\\u{202e}gpj.exe\\u{202c}".to_owned(),
        ),
        (
            "zero\u{200b}width\u{feff}".to_owned(),
            "zero\\u{200b}width\\u{feff}".to_owned(),
        ),
        (
            "filler\u{3164}selector\u{fe0f}blank\u{1d159}".to_owned(),
            "filler\\u{3164}selector\\u{fe0f}blank\\u{1d159}".to_owned(),
        ),
        ("two  spaces".to_owned(), "two  spaces".to_owned()),
        (long, cut),
    ]
}

#[tokio::test]
async fn keys_are_shown_as_text_and_lead_to_their_own_page() {
    let site = Site::start(&[]).await;
    let keys = hostile();
    let label = format!("{SCRIPT}@{}/1#{IMAGE}", "h".repeat(10)).replace(' ', "_");
    site.write(keys.iter().map(|(key, _)| (key.clone(), label.clone())))
        .await;
    let page = site.open("locks").await;
    page.until(&format!("{KEYS}.length === {}", keys.len()))
        .await;
    let shown: Vec<String> = serde_json::from_value(page.eval(KEYS).await).expect("they are texts");
    for (key, visible) in &keys {
        assert!(shown.contains(visible), "{key}: no {visible} in {shown:#?}");
    }
    let holder = page.text("document.querySelector('td.holder span').title || document.querySelector('td.holder span').textContent").await;
    assert!(holder.starts_with(SCRIPT), "{holder}");
    let isolated = "[...document.querySelectorAll('.raw')].every((it) => getComputedStyle(it).unicodeBidi === 'isolate')";
    assert_eq!(page.eval(isolated).await, true);

    for (key, visible) in &keys {
        let place = shown
            .iter()
            .position(|it| it == visible)
            .expect("it was found above");
        page.eval(&format!(
            "document.querySelectorAll('td.key a')[{place}].click()"
        ))
        .await;
        page.until(&format!(
            "new URLSearchParams(location.search).get('key') === {}",
            serde_json::json!(key)
        ))
        .await;
        page.until("document.querySelectorAll('.holders tbody tr').length === 1")
            .await;
        let title = page.text("document.querySelector('h1').textContent").await;
        let whole = if visible.contains('…') {
            key
        } else {
            visible
        };
        assert_eq!(&title, whole);
        // The same address is read from the start, for some that a path could not have.
        if ["..", "a%2Fb?c=d#e&f+g"].contains(&&**key) {
            page.eval("location.reload()").await;
            page.until(&format!(
                "document.querySelector('h1')?.textContent === {}",
                serde_json::json!(whole)
            ))
            .await;
            page.until("document.querySelectorAll('.holders tbody tr').length === 1")
                .await;
        }
        page.eval("history.back()").await;
        page.until(&format!("{KEYS}.length === {}", keys.len()))
            .await;
    }
    assert_eq!(page.eval("window.broken === undefined && document.querySelectorAll('main img, main script').length === 0").await, true);
    let width = page
        .eval("document.documentElement.scrollWidth <= innerWidth")
        .await;
    assert_eq!(width, true);
    site.assert_clean(&page);
}

#[tokio::test]
async fn the_policy_of_the_page_forbids_scripts_in_its_markup() {
    let site = Site::start(&[]).await;
    let page = site.open("locks").await;
    text(&page, "No lock is held or awaited.").await;
    site.assert_clean(&page);
    page.eval("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.broken=1\"><style>body{display:none}</style>')").await;
    page.eval("new Promise((done) => { const it = document.createElement('script'); it.textContent = 'window.broken=1'; \
               addEventListener('securitypolicyviolation', done, { once: true }); document.body.append(it); }).then(() => 1)").await;
    assert_eq!(page.eval("window.broken === undefined").await, true);
    page.until("getComputedStyle(document.body).display !== 'none'")
        .await;
}
