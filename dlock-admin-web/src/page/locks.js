// The list of locks: filtered, sorted and cut into pages by the server, as the address says.

import { absence } from './absence.js';
import { h, keyed, setText } from './dom.js';
import { counted, show } from './text.js';
import { duration, showTime } from './time.js';

const COLUMNS = [
  { name: 'key', title: 'Key', first: 'asc' },
  { name: null, title: 'Mode' },
  { name: 'holder', title: 'Holder', first: 'asc' },
  { name: null, title: 'Function' },
  { name: 'held', title: 'Held for', first: 'desc', number: true },
  { name: 'ttl', title: 'TTL left', first: 'asc', number: true },
  { name: 'waiters', title: 'Waiters', first: 'desc', number: true },
  { name: 'wait', title: 'Longest wait', first: 'desc', number: true },
];
const USUAL = { filter: '', by: '', state: '', mode: '', sort: 'key', order: 'asc', page: '1', per: '50' };
const TYPING = 200;

const count = (number) => (number === null || number === undefined ? '–' : number.toLocaleString('en'));

/// The address of a lock's page.
export const lockPath = (key) => `lock?key=${encodeURIComponent(key)}`;

export function locks(page, first) {
  let asked = read(first);
  let typing = 0;
  /// `true` until the answer to a change that the user made is shown.
  let isAsked = false;

  const filter = h('input', {
    type: 'search', id: 'filter', placeholder: 'key, process or function; * stands for any text', autocomplete: 'off', spellcheck: 'false',
    'aria-label': 'Filter by key, holder, waiter or function', 'aria-keyshortcuts': '/', input: later,
  });
  const by = choice('by', 'Search in', [['', 'in all names'], ['holder', 'in holders'], ['waiter', 'in waiters']]);
  const state = choice('state', 'State', [['', 'all locks'], ['held', 'held'], ['waiting', 'with waiters']]);
  const mode = choice('mode', 'Mode', [['', 'any mode'], ['exclusive', 'exclusive'], ['shared', 'shared']]);
  const sort = choice('sort', 'Sort by', COLUMNS.filter((it) => it.name).map((it) => [it.name, it.title.toLowerCase()]));
  const order = choice('order', 'Order', [['asc', 'ascending'], ['desc', 'descending']]);
  const per = choice('per', 'Locks on a page', ['25', '50', '100', '200'].map((it) => [it, `${it} a page`]));
  const clear = h('button', { type: 'button', class: 'quiet', hidden: true, click: () => { ask({ filter: '', by: '', state: '', mode: '' }); filter.focus(); } }, 'Clear');

  const totals = {};
  const total = (name, label) => {
    totals[name] = h('dd', {}, '–');
    return h('div', {}, h('dt', {}, label), totals[name]);
  };
  const heads = COLUMNS.map(head);
  const rows = h('tbody', { role: 'rowgroup' });
  const note = h('p', { class: 'notes', hidden: true });
  const empty = h('p', { class: 'empty' }, 'Loading…');
  const range = h('p', { class: 'range' });
  const pages = h('nav', { 'aria-label': 'Pages of the list', class: 'pages' });
  const links = Object.fromEntries([['first', '« First'], ['previous', '‹ Previous'], ['next', 'Next ›'], ['last', 'Last »']]
    .map(([name, label]) => [name, h('a', { class: 'button' }, label)]));
  pages.append(links.first, links.previous, range, links.next, links.last);

  const element = h('section', { class: 'view', 'aria-labelledby': 'title' },
    h('h1', { id: 'title', class: 'unseen' }, 'Locks'),
    h('dl', { class: 'totals' }, total('locks', 'locks'), total('held', 'held'), total('waiters', 'waiters'),
      total('longest_wait_ms', 'longest wait'), total('processes', 'processes'), total('grants_per_s', 'grants a second')),
    h('search', { class: 'tools' }, filter, by, state, mode, sort, order, per, clear),
    note,
    h('table', { class: 'list locks', role: 'table', 'aria-label': 'Locks' },
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, ...heads)), rows),
    empty, pages);

  function choice(name, label, values) {
    return h('select', { id: name, 'aria-label': label, change: (event) => ask({ [name]: event.target.value }) },
      ...values.map(([value, text]) => h('option', { value }, text)));
  }

  function head(column) {
    const content = column.name ? h('a', { 'data-sort': column.name }, column.title) : column.title;
    return h('th', { scope: 'col', role: 'columnheader', class: column.number ? 'number' : null }, content);
  }

  /// The address of the list with these changes; each of them but another page leads to the first page.
  function path(changes) {
    const next = { ...asked, page: '1', ...changes };
    const query = new URLSearchParams(Object.entries(next).filter(([name, value]) => value !== USUAL[name]));
    return `locks${query.size ? `?${query}` : ''}`;
  }

  function ask(changes, replace = false) {
    clearTimeout(typing);
    isAsked = true;
    page.go(path({ filter: filter.value, ...changes }), { replace });
  }

  /// What is typed becomes one step of the history, however many letters it has.
  function later() {
    clearTimeout(typing);
    typing = setTimeout(() => {
      ask({}, filter.dataset.typed === 'yes');
      filter.dataset.typed = 'yes';
    }, TYPING);
  }
  filter.addEventListener('blur', () => { filter.dataset.typed = 'no'; });

  function arrive(query) {
    asked = read(query);
    if (filter.value !== asked.filter && document.activeElement !== filter) {
      filter.value = asked.filter;
    }
    for (const [field, name] of [[by, 'by'], [state, 'state'], [mode, 'mode'], [sort, 'sort'], [order, 'order'], [per, 'per']]) {
      field.value = asked[name];
    }
    clear.hidden = !(asked.filter || asked.by || asked.state || asked.mode);
    for (const th of heads) {
      const link = th.querySelector('a');
      const column = link && COLUMNS.find((it) => it.name === link.dataset.sort);
      if (column) {
        const isSorted = column.name === asked.sort;
        const other = asked.order === 'asc' ? 'desc' : 'asc';
        link.href = path({ sort: column.name, order: isSorted ? other : column.first });
        if (isSorted) {
          th.setAttribute('aria-sort', asked.order === 'asc' ? 'ascending' : 'descending');
        } else {
          th.removeAttribute('aria-sort');
        }
      }
    }
  }

  function update(document) {
    showTotals(document.totals);
    note.hidden = document.cannot.length === 0;
    setText(note, document.cannot.join(' '));
    keyed(rows, document.locks, (lock) => lock.key, row, showRow);
    const { matching, page: at, pages: last, per: size } = document.list;
    const isFiltered = asked.filter || asked.state || asked.mode;
    empty.hidden = document.locks.length > 0;
    setText(empty, isFiltered ? absence(document, 'locks', 'No lock matches.', 'No lock matched when the store was last read.')
      : absence(document, 'locks', 'No lock is held or awaited.', 'No lock was held or awaited when the store was last read.'));
    const from = (at - 1) * size + 1;
    const to = from + document.locks.length - 1;
    setText(range, document.locks.length ? `${count(from)}–${count(to)} of ${count(matching)}` : '');
    if (isAsked && document.picture.taken !== null) {
      isAsked = false;
      page.say(counted(matching, 'lock matches', 'locks match'));
    }
    pages.hidden = last <= 1 && matching <= 10;
    const targets = { first: at > 1 && 1, previous: at > 1 && at - 1, next: at < last && at + 1, last: at < last && last };
    for (const [name, target] of Object.entries(targets)) {
      if (target) {
        links[name].href = path({ page: String(target) });
        links[name].removeAttribute('aria-disabled');
      } else {
        links[name].removeAttribute('href');
        links[name].setAttribute('aria-disabled', 'true');
      }
    }
  }

  function showTotals(sums) {
    for (const [name, place] of Object.entries(totals)) {
      const value = sums[name];
      setText(place, name === 'longest_wait_ms' ? duration(value)
        : name === 'grants_per_s' && typeof value === 'number' ? value.toLocaleString('en', { maximumFractionDigits: 1 }) : count(value));
      place.parentElement.hidden = value === undefined;
    }
  }

  const keyLinks = () => [...rows.querySelectorAll('a')];

  function step(by) {
    const all = keyLinks();
    const here = all.findIndex((link) => link.closest('tr').contains(document.activeElement));
    const next = here < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + by));
    all[next]?.focus();
    return all.length > 0;
  }

  function key_down(event, isTyping) {
    const isDown = event.key === 'ArrowDown' || (!isTyping && event.key === 'j');
    const isUp = event.key === 'ArrowUp' || (!isTyping && event.key === 'k');
    if (event.key === '/' && !isTyping) {
      filter.focus();
      filter.select();
      return true;
    }
    if (event.key === 'Escape' && (event.target === filter || filter.value)) {
      filter.value = '';
      filter.blur();
      ask({ filter: '' });
      return true;
    }
    if ((isDown || isUp) && (!isTyping || (event.target === filter && isDown))) {
      return step(isDown ? 1 : -1);
    }
    return false;
  }

  return {
    element,
    title: 'Locks',
    stream: () => ({ path: `api/picture/events?${new URLSearchParams(Object.entries(asked).filter(([, value]) => value))}`, event: 'picture' }),
    arrive,
    update,
    key_down,
    focusKey: (key) => keyLinks().find((link) => link.closest('tr').dataset.at === key)?.focus({ preventScroll: true }),
    stop: () => clearTimeout(typing),
  };
}

function read(query) {
  return Object.fromEntries(Object.entries(USUAL).map(([name, usual]) => [name, query.get(name) ?? usual]));
}

function row(lock) {
  const cell = (label, className, content) => h('td', { role: 'cell', 'data-label': label, class: className }, content);
  return h('tr', { role: 'row' },
    h('td', { role: 'cell', class: 'key' }, h('a', { href: lockPath(lock.key) })),
    cell('Mode', 'mode', h('span')), cell('Holder', 'holder', h('span')), cell('Function', 'function', h('span')),
    cell('Held for', 'number', h('time')), cell('TTL left', 'number', h('span')),
    cell('Waiters', 'number', h('span')), cell('Longest wait', 'number', h('span')));
}

function showRow(element, lock) {
  const [key, mode, holder, called, held, ttl, waiters, wait] = [...element.cells].map((cell) => cell.firstElementChild);
  show(key, lock.key, 64);
  setText(mode, modeText(lock));
  mode.dataset.mode = lock.mode;
  show(holder, lock.holder ?? (lock.holders ? 'unknown' : '–'), 40);
  show(called, lock.function ?? '', 44);
  called.parentElement.classList.toggle('nothing', !lock.function);
  showTime(held, duration(lock.held_ms), lock.since);
  setText(ttl, duration(lock.ttl_ms));
  setText(waiters, lock.waiters === null ? '–' : count(lock.waiters));
  setText(wait, lock.waiters ? duration(lock.longest_wait_ms) : '');
  waiters.classList.toggle('busy', lock.waiters > 0);
  waiters.classList.toggle('none', !lock.waiters);
  wait.classList.toggle('busy', lock.waiters > 0);
  wait.parentElement.classList.toggle('nothing', !lock.waiters);
}

/// The mode with the number of its holders, if several can hold it.
export function modeText(lock) {
  if (!lock.holders) {
    return 'free';
  }
  return lock.mode === 'exclusive' ? 'exclusive' : `${lock.mode ?? 'unknown'} ×${lock.holders}`;
}
