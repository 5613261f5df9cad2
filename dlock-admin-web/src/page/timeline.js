// The last minutes of a lock: a drawing, and the same as a table.

import { h, setText } from './dom.js';
import { draw } from './drawing.js';
import { endOf } from './lanes.js';
import { counted, show } from './text.js';
import { clock, duration, showTime } from './time.js';

const SPANS = [['60', '1 min'], ['300', '5 min'], ['', 'all']];
const MOST_ROWS = 200;
const COLUMNS = ['From', 'To', 'Process', 'Did', 'For', 'End', 'Renewals', 'Token'];
const NUMBERS = ['For', 'Renewals', 'Token'];

export function timeline(chosen) {
  let last = null;

  const buttons = SPANS.map(([span, text]) =>
    h('button', { type: 'button', class: 'quiet', 'data-span': span, click: () => { chosen(span); again(span); } }, text));
  const picture = h('div', { class: 'drawing' });
  const rows = h('tbody');
  const more = h('p', { class: 'range' });
  const details = h('details', { toggle: fillTable }, h('summary', {}, 'The same as a table'),
    h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Holders and waiters of the last minutes' },
      h('table', { class: 'plain' },
        h('thead', {}, h('tr', {}, ...COLUMNS.map((name) => h('th', { scope: 'col', class: NUMBERS.includes(name) ? 'number' : null }, name)))), rows)), more);
  const element = h('section', { class: 'timeline', hidden: true, 'aria-label': 'Time line' },
    h('h2', {}, 'Time line', h('span', { class: 'spans', role: 'group', 'aria-label': 'Length of the time line' }, ...buttons)),
    picture, legend(), details);

  const sized = new ResizeObserver(() => last && paint());
  sized.observe(picture);

  function paint() {
    const width = Math.floor(picture.clientWidth);
    if (width > 0) {
      picture.replaceChildren(draw(last.past, last.span, width, last.picture));
    }
  }

  function again(span) {
    choose(span);
    if (last) {
      last.span = seconds(span);
      paint();
    }
  }

  function choose(span) {
    for (const button of buttons) {
      button.setAttribute('aria-pressed', String(button.dataset.span === (span ?? '')));
    }
  }

  function fillTable() {
    if (!details.open || !last) {
      return;
    }
    const { holds, waits, gaps, to } = last.past;
    const all = [
      ...holds.map((it) => ({ ...it, did: 'held', isHold: true })),
      ...waits.map((it) => ({ ...it, did: 'waited', isHold: false })),
      ...gaps.map((it) => ({ ...it, did: 'not observed', isGap: true })),
    ].sort((a, b) => Date.parse(b.from) - Date.parse(a.from));
    rows.replaceChildren(...all.slice(0, MOST_ROWS).map((it) => tableRow(it, to)));
    setText(more, all.length > MOST_ROWS ? counted(all.length - MOST_ROWS, 'earlier one is not shown', 'earlier ones are not shown') : '');
  }

  return {
    element,
    choose,
    update(past, span, shown) {
      element.hidden = !past || past.holds.length + past.waits.length + past.gaps.length === 0;
      if (!element.hidden) {
        last = { past, span: seconds(span), picture: shown };
        choose(span);
        paint();
        fillTable();
      }
    },
    stop: () => sized.disconnect(),
  };
}

const seconds = (span) => (span && Number(span) > 0 ? Number(span) * 1000 : Infinity);

function tableRow(entry, now) {
  const instant = (text) => showTime(h('time'), clock(text), text);
  const length = Date.parse(entry.to ?? now) - Date.parse(entry.from);
  return h('tr', {},
    h('td', {}, instant(entry.from)),
    h('td', {}, entry.to ? instant(entry.to) : 'now'),
    h('td', {}, entry.isGap ? '' : show(h('span'), entry.label ?? entry.handle)),
    h('td', {}, entry.mode && entry.mode !== 'exclusive' ? `${entry.did}, ${entry.mode}` : entry.did),
    h('td', { class: 'number' }, duration(length)),
    h('td', {}, entry.isGap ? '' : endOf(entry, entry.isHold)),
    h('td', { class: 'number' }, entry.isHold ? String(entry.renewed.length) : ''),
    h('td', { class: 'number' }, entry.isHold ? entry.token ?? '' : ''));
}

/// The marks of the drawing, each with its meaning.
function legend() {
  const marks = [['held', 'held'], ['renewed', 'renewed'], ['waited', 'waited'], ['lost', 'lease lost'], ['gap', 'not observed']];
  return h('ul', { class: 'legend' }, ...marks.map(([name, text]) => h('li', {}, h('span', { class: `swatch ${name}`, 'aria-hidden': 'true' }), text)));
}
