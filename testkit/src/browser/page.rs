//! One page of the browser: what a user does with it, and what it has requested and complained about.

use std::fmt::Display;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Browser, DEADLINE, Link, lock};
use dlock_waiting::within;

/// Between two questions to a page, which has work of its own to do.
const PAUSE: Duration = Duration::from_millis(30);

/// A page with a context of its own. Dropping it closes it.
pub struct Page {
    link: Arc<Link>,
    browser: &'static Browser,
    context: String,
    target: String,
    session: String,
    heard: Arc<Heard>,
}

/// The events of a page so far.
#[derive(Default)]
struct Heard {
    requests: Mutex<Vec<String>>,
    complaints: Mutex<Vec<String>>,
}

impl Heard {
    fn hear(&self, method: &str, params: &Value) {
        let complaint = match method {
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                lock(&self.requests).push(url.to_owned());
                return;
            }
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                format!(
                    "{} {}",
                    details["text"], details["exception"]["description"]
                )
            }
            "Runtime.consoleAPICalled" if is_bad(&params["type"]) => {
                format!("console: {}", params["args"])
            }
            // Also what the policy of the page forbids.
            "Log.entryAdded" if is_bad(&params["entry"]["level"]) => {
                let entry = &params["entry"];
                format!("{}: {} {}", entry["source"], entry["text"], entry["url"])
            }
            _ => return,
        };
        lock(&self.complaints).push(complaint);
    }
}

/// Whether a level of messages is one of those that nothing should be said at.
fn is_bad(level: &Value) -> bool {
    ["error", "warning", "assert"].contains(&level.as_str().unwrap_or_default())
}

impl Page {
    pub(super) async fn open(link: &Arc<Link>, browser: &'static Browser) -> Self {
        let call = async |method: &str, params: Value| {
            let answer = link.call(None, method, params).await;
            answer.unwrap_or_else(|error| panic!("{method}: {error}\n{}", browser.log()))
        };
        let text = |value: &Value| value.as_str().expect("an id is a text").to_owned();
        let made = call("Target.createBrowserContext", json!({})).await;
        let context = text(&made["browserContextId"]);
        let blank = json!({"url": "about:blank", "browserContextId": context});
        let target = text(&call("Target.createTarget", blank).await["targetId"]);
        let attach = json!({"targetId": target, "flatten": true});
        let session = text(&call("Target.attachToTarget", attach).await["sessionId"]);
        let heard = Arc::new(Heard::default());
        let listener = Arc::clone(&heard);
        lock(&link.listeners).insert(
            session.clone(),
            Box::new(move |method, params| listener.hear(method, params)),
        );
        let page = Self {
            link: Arc::clone(link),
            browser,
            context,
            target,
            session,
            heard,
        };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({})).await;
        }
        // Several pages are open at once, and each of them is to believe that it is the one in front.
        page.call(
            "Emulation.setFocusEmulationEnabled",
            json!({"enabled": true}),
        )
        .await;
        page.size(1280, 800).await;
        page
    }

    /// Calls a method of the protocol.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.link.call(Some(&self.session), method, params).await;
        answer.unwrap_or_else(|error| panic!("{method}: {error}\n{}", self.browser.log()))
    }

    /// Opens an address and waits until the document is there.
    pub async fn go(&self, url: &str) {
        let answer = self.call("Page.navigate", json!({"url": url})).await;
        let error = answer["errorText"].as_str().unwrap_or_default();
        assert!(error.is_empty(), "{url}: {error}");
        self.until("document.readyState === 'complete'").await;
    }

    /// Sets the size of the page in pixels.
    pub async fn size(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Sets what the user prefers, such as `prefers-color-scheme` to `dark`.
    pub async fn prefer(&self, feature: &str, value: &str) {
        let media = json!({"features": [{"name": feature, "value": value}]});
        self.call("Emulation.setEmulatedMedia", media).await;
    }

    /// Returns the value of an expression, after its promise if it is one.
    pub async fn eval(&self, expression: &str) -> Value {
        let value = self.try_eval(expression).await;
        value.unwrap_or_else(|error| panic!("{expression}\n{error}"))
    }

    /// The text that an expression is.
    pub async fn text(&self, expression: &str) -> String {
        let value = self.eval(expression).await;
        let text = value.as_str();
        text.unwrap_or_else(|| panic!("{expression} is {value}"))
            .to_owned()
    }

    async fn try_eval(&self, expression: &str) -> Result<Value, String> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true});
        let session = Some(&*self.session);
        let answer = self.link.call(session, "Runtime.evaluate", params).await?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(details["exception"]["description"].to_string()),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Waits until an expression is true.
    ///
    /// Panics with the text of the page if that takes too long.
    #[track_caller]
    pub fn until(&self, expression: impl Into<String>) -> impl Future<Output = ()> {
        let (caller, expression) = (Location::caller(), expression.into());
        async move {
            let condition = format!("Boolean({expression})");
            let met = within(DEADLINE, async {
                // An error is a no: an element may not be there yet, nor the document that is being loaded.
                while self.try_eval(&condition).await != Ok(Value::Bool(true)) {
                    sleep(PAUSE).await;
                }
            });
            if met.await.is_none() {
                let text = self
                    .eval("location.href + '\\n' + document.body.innerText")
                    .await;
                let text = text.as_str().unwrap_or_default().to_owned();
                let complaints = self.complaints().join("\n");
                panic!(
                    "never ({caller}): {expression}\n--- page\n{text}\n--- complaints\n{complaints}"
                );
            }
        }
    }

    /// Clicks on the middle of an element, as a mouse does. It is repeated until the element has got it: an update of the page
    /// may move the element meanwhile. One that is disabled gets none.
    pub async fn click(&self, selector: &str) {
        static CLICKS: AtomicU64 = AtomicU64::new(0);
        let number = CLICKS.fetch_add(1, Ordering::Relaxed);
        // The name of a window outlives the document.
        let place = format!(
            "(() => {{ const it = document.querySelector({selector:?}); it.scrollIntoView({{block: 'center'}}); \
             const note = () => {{ window.name = 'click {number}'; }}; \
             if (it.disabled) note(); else it.addEventListener('click', note, {{capture: true, once: true}}); \
             const {{x, y, width, height}} = it.getBoundingClientRect(); return [x + width / 2, y + height / 2]; }})()"
        );
        let arrived = format!("window.name === 'click {number}'");
        let clicked = within(DEADLINE, async {
            loop {
                self.until(format!(
                    "document.querySelector({selector:?})?.offsetParent"
                ))
                .await;
                let at = self.eval(&place).await;
                for kind in ["mousePressed", "mouseReleased"] {
                    let event = json!({"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1});
                    self.call("Input.dispatchMouseEvent", event).await;
                }
                // An error is that of a page that is being left.
                if self.try_eval(&arrived).await != Ok(Value::Bool(false)) {
                    return;
                }
                sleep(PAUSE).await;
            }
        });
        let missed = || panic!("`{selector}` got no click");
        clicked.await.unwrap_or_else(missed);
    }

    /// Presses a key by its name, such as `Enter` or `/`.
    pub async fn press(&self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            "ArrowDown" => 40,
            "ArrowUp" => 38,
            _ => 0,
        };
        let typed = if key.chars().count() == 1 {
            key
        } else if key == "Enter" {
            "\r"
        } else {
            ""
        };
        let mut down =
            json!({"type": if typed.is_empty() { "rawKeyDown" } else { "keyDown" }, "key": key});
        down["windowsVirtualKeyCode"] = code.into();
        if !typed.is_empty() {
            down["text"] = typed.into();
        }
        self.call("Input.dispatchKeyEvent", down).await;
        let up = json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", up).await;
    }

    /// Types a text into the element that has the focus.
    pub async fn enter(&self, text: impl Display) {
        let text = text.to_string();
        self.call("Input.insertText", json!({"text": text})).await;
    }

    /// A picture of the page as PNG.
    pub async fn picture(&self) -> Vec<u8> {
        let shot = self
            .call("Page.captureScreenshot", json!({"format": "png"}))
            .await;
        let data = shot["data"].as_str().expect("a picture is a text");
        STANDARD.decode(data).expect("it is base64")
    }

    /// The addresses that the page has requested so far.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        lock(&self.heard.requests).clone()
    }

    /// The errors and warnings of the page so far, also of what its policy forbids and of requests that failed.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        lock(&self.heard.complaints).clone()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        lock(&self.link.listeners).remove(&self.session);
        self.link.send(
            None,
            "Target.closeTarget",
            &json!({"targetId": self.target}),
        );
        self.link.send(
            None,
            "Target.disposeBrowserContext",
            &json!({"browserContextId": self.context}),
        );
    }
}
