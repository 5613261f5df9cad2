//! Mistakes in the page of `dlock serve`, put into its files as they are served.

use super::super::look::Look::{self, Test, Tests};
use super::super::look::PAGE;
use super::super::mutant::Mutant;

const ASSETS: &str = "dlock-admin-web/src/assets.rs";

/// The place at which a file is served: each mistake puts another text in place of one of a file.
const SERVED: &str = "Response::new(«Body::from(asset.text)»)";

const fn mistake(
    name: &'static str,
    mistake: &'static str,
    wrong: &'static str,
    looks: &'static [Look],
) -> Mutant {
    Mutant::new(name, mistake, ASSETS, SERVED, wrong, looks)
}

pub(super) const ALL: &[Mutant] = &[
    mistake(
        "page-keys-as-markup",
        "Keys and holders are put into the page as markup",
        "Body::from(asset.text.replace(\"element.replaceChildren(...nodes);\\n  if (some\", \
         \"element.innerHTML = text;\\n  if (some\"))",
        &[Tests(PAGE, &["hostile"])],
    ),
    mistake(
        "page-marks-unseen",
        "Bidirectional marks are not made visible",
        "Body::from(asset.text.replace(\"HIDDEN.test(character)\", \"false\"))",
        &[Tests(PAGE, &["hostile"])],
    ),
    mistake(
        "page-no-banner-away",
        "The page does not say that the store is unreachable",
        "Body::from(asset.text.replace(\"this.#banner('away',\", \"this.#banner('none',\"))",
        &[Tests(PAGE, &["outage"])],
    ),
    mistake(
        "page-free-in-an-outage",
        "A page that is opened in an outage says that no lock is held",
        "Body::from(asset.text.replace(\"taken === null\", \"state === 'reading'\"))",
        &[Tests(PAGE, &["outage"])],
    ),
    mistake(
        "page-empty-of-what",
        "A view without locks does not say what was read, and when",
        "Body::from(asset.text.replace(\"`Read at\", \"'' && `\"))",
        &[Tests(PAGE, &["outage"])],
    ),
    mistake(
        "page-no-return",
        "A stream that has ended is not opened again",
        "Body::from(asset.text.replace(\"setTimeout(() => this.#open()\", \"setTimeout(() => {}\"))",
        &[Tests(PAGE, &["outage"])],
    ),
    mistake(
        "page-focus-lost",
        "A row that is moved or removed loses the focus",
        "Body::from(asset.text.replace(\"target?.focus\", \"null?.focus\"))",
        &[Tests(PAGE, &["list"])],
    ),
    mistake(
        "page-pause-ignored",
        "Updates go on although they are stopped",
        "Body::from(asset.text.replace(\"isFresh || !status.paused\", \"true\"))",
        &[Tests(PAGE, &["list"])],
    ),
    mistake(
        "page-key-not-typed",
        "The key need not be typed to unlock it",
        "Body::from(asset.text.replace(\"typed.value === key ? key : unescaped(typed.value)\", \"key\"))",
        &[Tests(PAGE, &["unlock"])],
    ),
    mistake(
        "page-key-of-the-address",
        "The address of a lock has its key as it is",
        "Body::from(asset.text.replace(\"encodeURIComponent(key)\", \"key\"))",
        &[Tests(PAGE, &["hostile"])],
    ),
    mistake(
        "page-light-only",
        "The colours for dark screens are not used",
        "Body::from(asset.text.replace(\"(prefers-color-scheme: dark)\", \"(prefers-color-scheme: none)\"))",
        &[Tests(PAGE, &["looks"])],
    ),
    mistake(
        "page-outline-hidden",
        "The focus cannot be seen",
        "Body::from(asset.text.replace(\":focus-visible { outline: 2px solid var(--accent);\", \":focus-visible { outline: none;\"))",
        &[Tests(PAGE, &["looks"])],
    ),
    mistake(
        "page-wide-cards",
        "A row stays a row on a small screen",
        "Body::from(asset.text.replace(\"(max-width: 720px)\", \"(max-width: 7px)\"))",
        &[Tests(PAGE, &["looks"])],
    ),
    mistake(
        "page-refusal-again",
        "A stream that was refused for good is opened again",
        "Body::from(asset.text.replace(\"this.#lost(reason, true);\", \"this.#lost(reason, true); this.#timer = setTimeout(() => this.#open(), 500);\"))",
        &[Test(PAGE, "views::a_refusal_is_final_and_an_outage_is_not")],
    ),
    mistake(
        "page-stream-unseen",
        "A tab in the background opens a stream",
        "Body::from(asset.text.replace(\"if (document.hidden) {\\n      // A tab\", \"if (false) {\\n      // A tab\"))",
        &[Test(
            PAGE,
            "views::a_tab_in_the_background_opens_no_stream_until_it_is_seen",
        )],
    ),
    mistake(
        "page-large-is-late",
        "A picture that takes long to read is late",
        "Body::from(asset.text.replace(\"+ 2 * (this.#picture?.took_ms ?? 0)\", \"\"))",
        &[Test(PAGE, "views::a_large_store_is_late_later")],
    ),
    mistake(
        "page-late-answer",
        "An answer is shown for a holder that it is not about",
        "Body::from(asset.text.replace(\"if (asked !== turn) {\", \"if (false) {\"))",
        &[Test(
            PAGE,
            "unlock::an_answer_that_comes_late_is_not_shown_for_another_holder",
        )],
    ),
    mistake(
        "page-third-party",
        "A lease of a third-party client can be unlocked",
        "Body::from(asset.text.replace(\"button.disabled = holder.handle === null && holder.fence === '0';\", \"button.disabled = false;\"))",
        &[Test(
            PAGE,
            "unlock::a_lease_of_a_third_party_client_is_left_to_the_command",
        )],
    ),
    mistake(
        "page-token-of-the-proxy",
        "The token is sent in place of the login of a proxy",
        "Body::from(asset.text.replace(\"'x-dlock-token': token.value\", \"authorization: `Bearer ${token.value}`\"))",
        &[Test(
            PAGE,
            "unlock::an_answer_that_comes_late_is_not_shown_for_another_holder",
        )],
    ),
    mistake(
        "page-focus-after-the-dialog",
        "The focus is lost with the dialog",
        "Body::from(asset.text.replace(\"if (!focused || focused === document.body || focused.closest('dialog:not([open])')) {\", \"if (false) {\"))",
        &[Test(
            PAGE,
            "unlock::the_focus_returns_to_the_button_or_to_the_content",
        )],
    ),
    mistake(
        "page-focus-of-the-last-row",
        "The focus is lost with the last row",
        "Body::from(asset.text.replace(\"?? parent.closest('main')\", \"\"))",
        &[Test(
            PAGE,
            "unlock::the_focus_returns_to_the_button_or_to_the_content",
        )],
    ),
    mistake(
        "page-names-cut",
        "A long name can be read only with a mouse",
        "Body::from(asset.text.replace(\"show(label, holder.label ?? 'unknown');\", \"show(label, holder.label ?? 'unknown', 48);\"))",
        &[Test(
            PAGE,
            "looks::names_and_processes_can_be_read_without_a_mouse",
        )],
    ),
    mistake(
        "page-process-unseen",
        "The host and the id of a process are not shown",
        "Body::from(asset.text.replace(\"`on ${process.host}`, `pid ${process.pid}`, \", \"\"))",
        &[Test(
            PAGE,
            "looks::names_and_processes_can_be_read_without_a_mouse",
        )],
    ),
    mistake(
        "page-one-locks",
        "One lock is said in the plural",
        "Body::from(asset.text.replace(\"number === 1 ? one : many\", \"many\"))",
        &[Test(PAGE, "lock::one_of_a_kind_is_said_in_the_singular")],
    ),
    mistake(
        "page-release-unattributed",
        "The time line does not say who has released a lease",
        "Body::from(asset.text.replace(\"entry.by ?\", \"false ?\"))",
        &[Test(
            PAGE,
            "unlock::a_lock_is_released_with_its_key_and_the_token",
        )],
    ),
    mistake(
        "page-selectors-unseen",
        "Invisible marks are not made visible",
        "Body::from(asset.text.replace(\"\\\\p{Default_Ignorable_Code_Point}\", \"\"))",
        &[Tests(PAGE, &["hostile"])],
    ),
];
