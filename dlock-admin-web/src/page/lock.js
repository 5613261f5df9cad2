// One lock: its holders, its queue in order, and its last minutes.

import { reading } from './absence.js';
import { h, keyed, setText } from './dom.js';
import { modeText } from './locks.js';
import { counted, show, visible } from './text.js';
import { before, duration, showTime } from './time.js';
import { timeline } from './timeline.js';
import { unlockDialog } from './unlock.js';

/// The columns of numbers stand at their right edge, as the numbers do.
const NUMBERS = ['Held for', 'TTL left', 'Waiting for'];
const HOLDERS = ['Holder', 'Function', 'Process', 'Held for', 'TTL left', 'Fencing token', 'Handle', ''];
const WAITERS = ['', 'Waiter', 'Mode', 'Process', 'Waiting for', 'State'];

export function lock(page, query) {
  const key = query.get('key') ?? '';
  let span = query.get('span');

  const title = show(h('h1', { id: 'title', class: 'whole' }), key);
  const mode = h('span', { class: 'badge' }, '…');
  const facts = h('p', { class: 'facts' });
  const note = h('p', { class: 'notes', hidden: true });
  const free = h('p', { class: 'empty', hidden: true });

  const holders = table('Holders', HOLDERS);
  const waiters = table('Queue', WAITERS);
  const drawing = timeline((next) => {
    span = next;
    const address = new URLSearchParams({ key, ...(span ? { span } : {}) });
    page.go(`lock?${address}`, { replace: true });
  });
  const dialog = unlockDialog(key);

  const element = h('section', { class: 'view lock', 'aria-labelledby': 'title' },
    h('p', { class: 'back' }, h('a', { href: 'locks', click: back }, '‹ All locks')),
    h('div', { class: 'title' }, title, mode), facts, note, free,
    holders.section, waiters.section, drawing.element, dialog.element);

  /// To the list as it was left, where this page was reached from it.
  function back(event) {
    if (history.state?.from === 'locks') {
      event.preventDefault();
      history.back();
    }
  }

  function update(document) {
    const { lock: it, can_unlock: canUnlock, history: past } = document;
    const isKnown = document.picture.taken !== null;
    const absence = it === null ? absenceOf(document) : null;
    free.hidden = absence === null;
    setText(free, absence ?? '');
    note.hidden = document.cannot.length === 0;
    setText(note, document.cannot.join(' '));
    const count = it?.holder_count ?? 0;
    setText(mode, it ? modeText({ mode: it.mode, holders: count }) : isKnown ? 'free' : '…');
    mode.dataset.mode = it ? it.mode : isKnown ? 'free' : 'unknown';
    setText(facts, it ? factsOf(it) : '');
    holders.show(it?.holders ?? [], count, (holder) => `${holder.handle} ${holder.token}`, holderRow, (row, holder) => {
      showHolder(row, holder, document.picture.taken);
      const button = row.querySelector('button');
      // A third-party client has neither, and the next one on the key looks the same.
      button.disabled = holder.handle === null && holder.token === null;
      setText(button, button.disabled ? 'Only by dlock unlock' : 'Unlock…');
      button.hidden = !canUnlock;
      button.onclick = () => dialog.open(holder, document);
    });
    holders.section.classList.toggle('locked', !canUnlock);
    waiters.show((it?.waiters ?? []).map((waiter, at) => ({ ...waiter, at: at + 1 })), it?.waiter_count ?? 0,
      (waiter) => waiter.handle, waiterRow, (row, waiter) => showWaiter(row, waiter, document.picture.taken));
    drawing.update(past, span, document.picture);
    dialog.update(it);
  }

  return {
    element,
    key,
    title: title.textContent,
    stream: () => ({ path: `api/lock/events?${new URLSearchParams({ key })}`, event: 'lock' }),
    arrive: (next) => { span = next.get('span'); drawing.choose(span); },
    update,
    key_down(event, isTyping) {
      if (event.key === 'Escape' && !isTyping) {
        element.querySelector('.back a').click();
        return true;
      }
      return false;
    },
    stop: () => drawing.stop(),
  };
}

/// What it means that there is no lock to be seen, or null if that is not known yet.
function absenceOf(document) {
  const { taken, state, reason } = document.picture;
  if (taken === null) {
    return state === 'away' ? `This lock could not be read${reason ? `: ${visible(reason)}` : '.'}` : null;
  }
  const free = state === 'away'
    ? 'This lock was free when it was last read.'
    : 'This lock is free: no process holds it or waits for it.';
  return `${free} ${reading(document)}`;
}

function factsOf(it) {
  const parts = [];
  if (it.last_token) {
    parts.push(`last token ${it.last_token}`);
  }
  if (it.servers > 1) {
    parts.push(`held at ${it.held_at} of ${it.servers} servers`);
  }
  return parts.join(' · ');
}

/// A heading with a number, and a table below it that is there if it has rows.
function table(title, columns) {
  const number = h('span', { class: 'count' });
  const rows = h('tbody', { role: 'rowgroup' });
  const more = h('p', { class: 'range' });
  const body = h('table', { class: 'list', role: 'table', 'aria-label': title },
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' },
      ...columns.map((name) => h('th', { scope: 'col', role: 'columnheader', class: NUMBERS.includes(name) ? 'number' : null }, name)))), rows);
  const section = h('section', { class: title.toLowerCase(), hidden: true }, h('h2', {}, title, number), body, more);
  return {
    section,
    show(items, count, key, made, update) {
      section.hidden = items.length === 0;
      setText(number, String(count));
      keyed(rows, items, key, made, update);
      setText(more, count > items.length ? counted(count - items.length, 'more is not shown', 'more are not shown') : '');
    },
  };
}

const cell = (label, tag = 'span', className = null) =>
  h('td', { role: 'cell', 'data-label': label, class: className }, h(tag));

function holderRow() {
  return h('tr', { role: 'row' }, cell('Holder', 'span', 'key'), cell('Function', 'span', 'wide'), cell('Process', 'span', 'wide'),
    cell('Held for', 'time', 'number'), cell('TTL left', 'span', 'number'), cell('Fencing token', 'code'), cell('Handle', 'code'),
    h('td', { role: 'cell', class: 'action' }, h('button', { type: 'button', class: 'danger' }, 'Unlock…')));
}

function showHolder(row, holder, now) {
  const [label, called, process, held, ttl, token, handle] = [...row.cells].map((it) => it.firstElementChild);
  show(label, holder.label ?? 'unknown');
  show(called, holder.function ?? '–');
  showProcess(process, holder.process, now);
  showTime(held, duration(holder.held_ms), holder.since);
  setText(ttl, duration(holder.ttl_ms));
  show(token, holder.token ?? '–', 32);
  show(handle, holder.handle ?? '–', 18);
}

function waiterRow() {
  return h('tr', { role: 'row' }, cell('Place', 'span', 'number place'), cell('Waiter', 'span', 'key'), cell('Mode'), cell('Process', 'span', 'wide'),
    cell('Waiting for', 'span', 'number'), cell('State'));
}

function showWaiter(row, waiter, now) {
  const [place, label, mode, process, waiting, alive] = [...row.cells].map((it) => it.firstElementChild);
  setText(place, String(waiter.at));
  show(label, waiter.label ?? waiter.handle ?? 'unknown');
  setText(mode, waiter.permits ? `${waiter.mode}, ${counted(waiter.permits, 'permit', 'permits')}` : (waiter.mode ?? '–'));
  showProcess(process, waiter.process, now);
  setText(waiting, duration(waiter.waiting_ms));
  setText(alive, waiter.is_alive === false ? '▲ polls no longer' : waiter.at === 1 ? 'next' : 'waiting');
  alive.classList.toggle('warned', waiter.is_alive === false);
}

/// What a process has said of itself.
function showProcess(element, process, now) {
  if (!process) {
    show(element, '–');
    return;
  }
  const since = now ? before(now, process.started) : null;
  const parts = [process.application, `on ${process.host}`, `pid ${process.pid}`, process.version, since === null ? null : `up ${duration(since)}`];
  show(element, parts.filter(Boolean).join(', '));
}
