// The processes that hold or await locks, or have said who they are.

import { absence } from './absence.js';
import { h, keyed, setText } from './dom.js';
import { counted, show } from './text.js';
import { before, duration, showTime } from './time.js';

const COLUMNS = ['Process', 'Application', 'Host', 'Pid', 'Running for', 'Version', 'Holds', 'Waits'];
/// Reading them is more work for the store than a picture that is there already.
const PAUSE = 2000;
const MOST = 500;

export function processes(page) {
  let asked = -Infinity;
  let isAsking = false;

  const rows = h('tbody', { role: 'rowgroup' });
  const empty = h('p', { class: 'empty' }, 'Loading…');
  const note = h('p', { class: 'notes', hidden: true });
  const number = h('span', { class: 'count' });
  const more = h('p', { class: 'range' });
  const element = h('section', { class: 'view', 'aria-labelledby': 'title' },
    h('h1', { id: 'title' }, 'Processes', number), note,
    h('table', { class: 'list', role: 'table', 'aria-label': 'Processes' },
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' },
        ...COLUMNS.map((name, at) => h('th', { scope: 'col', role: 'columnheader', class: isNumber(at) ? 'number' : null }, name)))), rows),
    empty, more);

  async function update() {
    if (isAsking || performance.now() - asked < PAUSE) {
      return;
    }
    isAsking = true;
    try {
      fill(await page.get('api/processes'));
    } catch (error) {
      empty.hidden = rows.childElementCount > 0;
      setText(empty, `The processes cannot be read: ${error.message}`);
    }
    asked = performance.now();
    isAsking = false;
  }

  function fill(document) {
    const { processes: all, cannot, picture } = document;
    const nothing = absence(document, 'processes', 'No process holds or awaits a lock.', 'No process held or awaited a lock when the store was last read.');
    note.hidden = cannot.length === 0;
    setText(note, cannot.join(' '));
    // Before the first reading.
    if (all === null) {
      empty.hidden = rows.childElementCount > 0;
      setText(empty, nothing);
      return;
    }
    setText(number, String(all.length));
    keyed(rows, all.slice(0, MOST), (it) => it.client ?? it.label ?? '', row,
      (element, it) => showRow(element, it, picture.taken));
    empty.hidden = all.length > 0;
    setText(empty, nothing);
    setText(more, all.length > MOST ? counted(all.length - MOST, 'more is not shown', 'more are not shown') : '');
  }

  return {
    element,
    title: 'Processes',
    stream: () => ({ path: 'api/picture/events?per=1', event: 'picture' }),
    update,
  };
}

const isNumber = (at) => at === 3 || at >= 6;

function row() {
  const cells = COLUMNS.map((name, at) =>
    h('td', { role: 'cell', 'data-label': name, class: at === 0 ? 'key' : isNumber(at) ? 'number' : null },
      h(at === 4 ? 'time' : at >= 6 ? 'a' : 'span')));
  return h('tr', { role: 'row' }, ...cells);
}

function showRow(element, process, now) {
  const [label, application, host, pid, started, version, holds, waits] = [...element.cells].map((it) => it.firstElementChild);
  show(label, process.label ?? 'unknown');
  show(application, process.application ?? '–');
  show(host, process.host ?? '–');
  setText(pid, process.pid === null ? '–' : String(process.pid));
  showTime(started, duration(process.started && now ? before(now, process.started) : null), process.started);
  show(version, process.version ?? '–');
  for (const [element, number, by] of [[holds, process.holds, 'holder'], [waits, process.waits, 'waiter']]) {
    setText(element, String(number ?? '–'));
    if (number && process.label) {
      element.href = `locks?${new URLSearchParams({ filter: process.label, by })}`;
    } else {
      element.removeAttribute('href');
    }
  }
  waits.classList.toggle('busy', process.waits > 0);
  waits.classList.toggle('none', !process.waits);
}
