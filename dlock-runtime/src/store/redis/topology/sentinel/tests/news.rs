//! Tests of the subscription to a Sentinel, and of the messages that cause a request.

use super::*;

/// Starts a Sentinel that knows the master of `m` and announces at once that those of `services` have changed. Also
/// returns the numbers of requests and of subscriptions.
async fn telling(services: &'static [&'static str]) -> (Fake, Arc<[AtomicUsize; 2]>) {
    let counts = Arc::<[AtomicUsize; 2]>::default();
    let counted = counts.clone();
    let fake = Fake::start(move |words| {
        let counted = counted.clone();
        async move {
            match words[0].as_str() {
                "SENTINEL" if words[1] == "MASTER" => {
                    counted[0].fetch_add(1, Ordering::Relaxed);
                    format!("%1\r\n{}{}", bulk("config-epoch"), bulk("3"))
                }
                "SENTINEL" => format!("*2\r\n{}{}", bulk("h"), bulk("1")),
                "SUBSCRIBE" => {
                    counted[1].fetch_add(1, Ordering::Relaxed);
                    let told = services.iter().map(|service| {
                        let text = bulk(&format!("{service} h 1 h 2"));
                        format!(">3\r\n{}{}{text}", bulk("message"), bulk(SWITCHED))
                    });
                    courtesy(&words) + &told.collect::<String>()
                }
                _ => courtesy(&words),
            }
        }
    })
    .await;
    (fake, counts)
}

/// Sentinels watch many services, and each change would otherwise cause requests from all processes.
#[tokio::test]
async fn only_a_word_of_the_service_is_news() {
    for (services, is_news) in [
        (&[][..], false),
        (&["other", "mm", "m2", ""], false),
        (&["other", "m"], true),
    ] {
        let (fake, _) = telling(services).await;
        let sentinel = over(std::slice::from_ref(&fake)).all.remove(0);
        let mut news = SwitchListener::listen(&sentinel, LONG).await.unwrap();
        // After that, there are no messages.
        drop(fake);
        let told = timeout(LONG, news.wait_for("m")).await;
        assert_eq!(told, Ok(is_news), "{services:?}");
    }
}

#[tokio::test]
async fn another_sentinel_is_listened_to_when_one_is_not_heard_of_any_more() {
    let mut all = [telling(&[]).await, telling(&[]).await].map(Some);
    let counts = all.each_ref().map(|it| it.as_ref().unwrap().1.clone());
    let urls = all
        .each_ref()
        .map(|it| format!("127.0.0.1:{}", it.as_ref().unwrap().0.port));
    let url = format!("redis-sentinel://{}/m", urls.join(","));
    let sentinels = Sentinels::new(&Location::parse(&url).unwrap(), "m");
    let [asked, heard] = [0, 1].map(|what: usize| {
        let counts = counts.clone();
        move |which: usize| counts[which][what].load(Ordering::Relaxed)
    });
    let known = master(3, 1).address;
    let goes_over = async {
        // They receive requests when a subscription begins, or fails.
        eventually(LONG, "they are asked", async || {
            asked(0) > 0 && asked(1) > 0
        })
        .await;
        let first = usize::from(heard(1) > 0);
        let (other, before) = (1 - first, asked(1 - first));
        all[first] = None;
        eventually(
            LONG,
            "the other is listened to, or asked all the time",
            async || heard(other) > 0 || asked(other) > before + 100,
        )
        .await;
        assert_eq!(heard(other), 1, "asked {} times", asked(other) - before);
    };
    // Shorter than any pause.
    tokio::select! {
        error = sentinels.moved(&known, 2 * LONG, LONG) => panic!("{error}"),
        () = goes_over => {}
    }
}
