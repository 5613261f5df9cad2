// The page: which view an address means, the events that it shows, and the keys that work everywhere.

import { setText } from './dom.js';
import { doctor } from './doctor.js';
import { Live } from './live.js';
import { lock } from './lock.js';
import { locks } from './locks.js';
import { processes } from './processes.js';
import { Status } from './status.js';

const VIEWS = { locks, lock, processes, doctor };

const main = document.getElementById('main');
const pause = document.getElementById('pause');
const base = new URL(document.baseURI);

let view = null;
/// `true` until the first document of a stream: that one is shown although the updates are stopped.
let isFresh = true;
/// The place on the page to return to, once the view is filled.
let place = null;

const status = new Status(() => live.retry());
const live = new Live(
  (document) => {
    const isShown = isFresh || !status.paused;
    status.heard(document, isShown);
    main.classList.toggle('stale', status.stale);
    if (isShown) {
      // Before the first reading there is nothing to be seen.
      isFresh &&= document.picture.taken === null;
      view.update(document);
      restore();
    }
  },
  (reason, isFinal) => {
    status.lost(reason, isFinal);
    main.classList.toggle('stale', status.stale);
  },
);

/// What a view can do to the rest of the page.
const page = {
  /// Shows another address of this page.
  go(path, { replace = false } = {}) {
    const address = new URL(path, base);
    if (address.href !== location.href) {
      if (replace) {
        history.replaceState({ ...history.state, top: scrollY }, '', address);
      } else {
        history.replaceState({ ...history.state, top: scrollY }, '');
        history.pushState({ from: view.name }, '', address);
      }
    }
    arrive(false);
  },
  /// Says something to those who do not see the page.
  say(text) {
    setText(document.getElementById('said'), text);
  },
  /// Asks for a document of the server.
  async get(path) {
    const answer = await fetch(path, { headers: { accept: 'application/json' } });
    if (!answer.ok) {
      const body = await answer.json().catch(() => ({}));
      throw new Error(body.error ?? `the server answers ${answer.status}`);
    }
    return answer.json();
  },
};

/// The view of the address, and what it is to show.
function arrive(isReturn) {
  const path = location.pathname.slice(base.pathname.length).replace(/\/$/, '');
  const name = Object.hasOwn(VIEWS, path) ? path : 'locks';
  const query = new URLSearchParams(location.search);
  const identity = name === 'lock' ? `lock ${query.get('key')}` : name;
  if (view?.identity !== identity) {
    view?.stop?.();
    const came = view;
    view = VIEWS[name](page, query);
    Object.assign(view, { name, identity });
    main.replaceChildren(view.element);
    for (const link of document.querySelectorAll('nav a')) {
      const isHere = link.dataset.view === name || (name === 'lock' && link.dataset.view === 'locks');
      link.toggleAttribute('data-here', isHere);
      if (link.dataset.view === name) {
        link.setAttribute('aria-current', 'page');
      } else {
        link.removeAttribute('aria-current');
      }
    }
    place = { top: isReturn ? (history.state?.top ?? 0) : 0, key: isReturn ? came?.key : null };
    if (came) {
      // As after a link of a page without scripts: the next key press continues at the new content.
      main.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }
  view.arrive?.(query);
  document.title = `${view.title} · dlock`;
  const { path: stream, event } = view.stream();
  isFresh = true;
  live.listen(new URL(stream, base).href, event);
}

/// Returns to where the list was left.
function restore() {
  if (place) {
    scrollTo(0, place.top);
    if (place.key) {
      view.focusKey?.(place.key);
    }
    place = null;
  }
}

function stopUpdates() {
  status.paused = !status.paused;
  pause.setAttribute('aria-pressed', String(status.paused));
  setText(pause, status.paused ? 'Continue' : 'Pause');
  isFresh = !status.paused;
  status.tick();
  if (!status.paused) {
    live.retry();
  }
}

function isTyping(target) {
  return target.closest?.('input, select, textarea, [contenteditable]') !== null;
}

history.scrollRestoration = 'manual';
addEventListener('popstate', () => arrive(true));
pause.addEventListener('click', stopUpdates);
document.getElementById('help').addEventListener('click', () => document.getElementById('keys').showModal());

document.addEventListener('click', (event) => {
  const link = event.target.closest?.('a');
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || link.target || event.defaultPrevented) {
    return;
  }
  if (link.matches('.skip')) {
    event.preventDefault();
    main.focus();
  } else if (link.origin === base.origin && link.pathname.startsWith(base.pathname)) {
    event.preventDefault();
    page.go(link.href);
  }
});

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) {
    return;
  }
  if (view.key_down?.(event, isTyping(event.target))) {
    event.preventDefault();
  } else if (!isTyping(event.target) && event.key === 'p') {
    stopUpdates();
  } else if (!isTyping(event.target) && event.key === '?') {
    document.getElementById('keys').showModal();
  }
});

// A browser returns the focus to the element that had it when a dialog was opened. If that is gone, the focus stays in the dialog until
// the next picture, and is then nowhere.
document.addEventListener('close', () => {
  const focused = document.activeElement;
  if (!focused || focused === document.body || focused.closest('dialog:not([open])')) {
    main.focus({ preventScroll: true });
  }
}, true);

arrive(false);
