//! Mistakes in the page of `dlock serve`, put into its files as they are served.

use super::super::look::Look::{self, Tests};
use super::super::look::PAGE;
use super::super::mutant::Mutant;

const ASSETS: &str = "dlock-runtime/src/admin/web/assets.rs";

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
];
