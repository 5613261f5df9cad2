//! The page on a small screen, in both colour schemes, and without a mouse.

use serde_json::{Value, json};

use super::site::{Site, UNLOCKS};
use super::{KEYS, fleet, keys, state, text};

/// All texts whose contrast with their ground is less than 4.5, as WCAG asks of small letters.
const PALE: &str = "(() => {
  const channel = (value) => { const part = value / 255; return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; };
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const colour = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (element) => {
    for (let it = element; it; it = it.parentElement) {
      const found = colour(getComputedStyle(it).backgroundColor);
      if ((found[3] ?? 1) === 1) { return found; }
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('body *')].filter((it) => it.offsetParent && [...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .map((it) => {
      const [a, b] = [luminance(colour(getComputedStyle(it).color)), luminance(ground(it))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), it.className + ' ' + it.textContent];
    }).filter(([contrast]) => contrast < 4.5);
})()";

#[tokio::test]
async fn no_view_scrolls_sideways_on_a_small_screen() {
    let site = Site::start(UNLOCKS).await;
    fleet::start(&site).await;
    let page = site.open("locks").await;
    page.size(380, 800).await;
    for (view, sign) in [
        ("locks", "td.key a"),
        ("locks?filter=report&sort=wait&order=desc", "td.key a"),
        ("lock?key=report%3A2026-11", ".queue tbody tr"),
        ("processes", "tbody tr"),
        ("doctor", ".findings li"),
    ] {
        page.go(&format!("{}{view}", site.url)).await;
        state(&page, "live").await;
        page.until(&format!("document.querySelector({sign:?})"))
            .await;
        let wide = "[...document.querySelectorAll('body *')].filter((it) => it.offsetParent && !it.closest('.unseen, thead, .skip, .scroll') \
                    && it.getBoundingClientRect().right > innerWidth + 0.5).map((it) => it.className + ' ' + it.textContent)";
        assert_eq!(page.eval(wide).await, json!([]), "{view}");
        assert_eq!(
            page.eval("document.documentElement.scrollWidth").await,
            380,
            "{view}"
        );
    }
    page.go(&format!("{}lock?key=report%3A2026-11", site.url))
        .await;
    page.click(".action button").await;
    page.until("document.querySelector('dialog[open]')").await;
    assert_eq!(
        page.eval("document.querySelector('dialog[open]').getBoundingClientRect().right <= 380")
            .await,
        true
    );
    site.assert_clean(&page);
}

/// A touch screen and a keyboard show no tooltips.
#[tokio::test]
async fn names_and_processes_can_be_read_without_a_mouse() {
    let site = Site::start(&[]).await;
    let name = "billing-and-settlement-of-all-open-orders@warehouse-17.example.com/4711";
    site.write([("order:1".to_owned(), name.to_owned())]).await;
    let manager = site.manager("orders").await;
    let guard = manager.lock("order:2").acquire().await.expect("it is free");
    let page = site.open("lock?key=order%3A1").await;
    text(&page, name).await;
    page.click("details summary").await;
    page.until(format!(
        "document.querySelector('details tbody')?.innerText.includes({})",
        json!(name)
    ))
    .await;
    page.go(&format!("{}lock?key=order%3A2", site.url)).await;
    text(&page, "orders, on ").await;
    text(&page, &format!("pid {}", std::process::id())).await;
    page.go(&format!("{}processes", site.url)).await;
    text(&page, name).await;
    guard.release().await.expect("the server answers");
    site.assert_clean(&page);
}

#[tokio::test]
async fn both_colour_schemes_can_be_read() {
    let site = Site::start(UNLOCKS).await;
    fleet::start(&site).await;
    let page = site.open("locks").await;
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        page.prefer("prefers-color-scheme", scheme).await;
        for (view, sign) in [
            ("locks", "td.key a"),
            ("lock?key=report%3A2026-11", ".queue tbody tr"),
            ("doctor", ".findings li"),
        ] {
            page.go(&format!("{}{view}", site.url)).await;
            state(&page, "live").await;
            page.until(&format!("document.querySelector({sign:?})"))
                .await;
            assert_eq!(page.eval(PALE).await, json!([]), "{scheme} {view}");
        }
        grounds.push(
            page.eval("getComputedStyle(document.body).backgroundColor")
                .await,
        );
    }
    assert_ne!(grounds[0], grounds[1]);
    page.prefer("prefers-reduced-motion", "reduce").await;
    page.go(&format!("{}locks", site.url)).await;
    page.until("document.querySelector('.locks tbody')").await;
    let moves = "[...document.querySelectorAll('body *')].filter((it) => getComputedStyle(it).transitionDuration !== '0s' || getComputedStyle(it).animationName !== 'none').length";
    assert_eq!(page.eval(moves).await, 0);
    site.assert_clean(&page);
}

#[tokio::test]
async fn all_can_be_done_with_the_keyboard() {
    let site = Site::start(UNLOCKS).await;
    site.write(["a", "b", "c"].map(|key| (key.to_owned(), "x@h/1".to_owned())))
        .await;
    let page = site.open("locks").await;
    keys(&page, &["a", "b", "c"]).await;

    // Each stop of the Tab key can be seen.
    let mut stops = Vec::new();
    for _ in 0..40 {
        page.press("Tab").await;
        let stop = page.eval("document.activeElement === document.body ? null : [document.activeElement.id || document.activeElement.textContent.trim(), \
                              getComputedStyle(document.activeElement).outlineStyle !== 'none' && document.activeElement.getBoundingClientRect().top >= 0]").await;
        if stop == Value::Null || stops.first() == Some(&stop) {
            break;
        }
        assert_eq!(stop[1], true, "{stop}");
        stops.push(stop);
    }
    let names: Vec<_> = stops
        .iter()
        .map(|it| it[0].as_str().unwrap_or_default())
        .collect();
    for name in [
        "Skip to the content",
        "Locks",
        "Processes",
        "Doctor",
        "pause",
        "filter",
        "state",
        "mode",
        "Waiters",
        "a",
        "c",
    ] {
        assert!(names.contains(&name), "no stop at {name}: {names:?}");
    }

    page.eval("document.activeElement.blur()").await;
    page.press("ArrowDown").await;
    page.press("j").await;
    page.until("document.activeElement.textContent === 'b'")
        .await;
    page.press("k").await;
    page.press("ArrowDown").await;
    page.press("Enter").await;
    page.until("document.querySelector('h1').textContent === 'b'")
        .await;
    page.until("document.activeElement.id === 'main'").await;
    page.press("Escape").await;
    keys(&page, &["a", "b", "c"]).await;
    page.until("document.activeElement.textContent === 'b'")
        .await;

    page.press("/").await;
    page.until("document.activeElement.id === 'filter'").await;
    page.enter("c").await;
    keys(&page, &["c"]).await;
    page.press("ArrowDown").await;
    page.until("document.activeElement.textContent === 'c'")
        .await;
    page.press("Escape").await;
    keys(&page, &["a", "b", "c"]).await;

    page.press("?").await;
    text(&page, "Keys of this page").await;
    page.until("document.querySelector('dialog[open]')").await;
    page.press("p").await;
    page.press("Escape").await;
    page.until("document.querySelector('dialog[open]') === null")
        .await;
    // Keys that are pressed in a dialog do nothing behind it.
    state(&page, "live").await;
    assert_eq!(page.eval(KEYS).await, json!(["a", "b", "c"]));
    site.assert_clean(&page);
}
