// The drawing of a time line: a lane for each process, with bars for what it held and lines for its waits.

import { svg } from './dom.js';
import { endOf, lanesOf } from './lanes.js';
import { counted, shortened, visible } from './text.js';
import { clock, duration } from './time.js';

const LANE = 18;
const BAR = 10;
const AXIS = 20;
const NARROW = 620;
const SHORTEST = 60_000;
/// The width of a letter in the names of lanes, which have a fixed one.
const LETTER = 6.7;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600].map((it) => it * 1000);

/// A drawing `width` pixels wide of the last `span` milliseconds.
export function draw(past, span, width, picture) {
  const end = Date.parse(past.to);
  const begin = Math.max(observedSince(past, end), end - span);
  const isNarrow = width < NARROW;
    const { lanes, hidden } = lanesOf(past, begin, end);
  const longest = Math.max(0, ...lanes.map((lane) => visible(lane.label).length));
  const left = isNarrow ? 0 : Math.round(Math.min(width * 0.25, longest * LETTER + 14));
  const right = 4;
  const x = (time) => left + ((Math.min(Math.max(time, begin), end) - begin) / Math.max(1, end - begin)) * (width - left - right);
  const rows = [];
  let y = AXIS;
  for (const lane of lanes) {
    const named = isNarrow ? 15 : 0;
    rows.push({ ...lane, top: y + named, named: y });
    y += named + lane.tracks.length * LANE + 6;
  }
  const height = y + (hidden ? 18 : 2);
  const drawing = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': summary(past, lanes.length + hidden, end - begin) });

  for (const gap of past.gaps) {
    const [from, to] = [x(Date.parse(gap.from)), x(Date.parse(gap.to))];
    if (to > from) {
      drawing.append(svg('rect', { class: 'gap', x: from, y: AXIS - 4, width: to - from, height: height - AXIS + 2 },
        title(`not observed, ${clock(gap.from)} – ${clock(gap.to)}`)));
      if (to - from > 84) {
        drawing.append(text('not observed', { class: 'gap-name', x: (from + to) / 2, y: height - 6, 'text-anchor': 'middle' }));
      }
    }
  }
  axis(drawing, begin, end, x, width, height, left);
  for (const row of rows) {
    const room = Math.floor((isNarrow ? width : left - 10) / LETTER);
    const name = text(shortened(row.label, room), { class: 'lane', x: 0, y: row.named + 13 });
    name.append(title(visible(row.label)));
    drawing.append(name, svg('line', { class: 'rule', x1: 0, x2: width, y1: row.top + row.tracks.length * LANE + 2.5, y2: row.top + row.tracks.length * LANE + 2.5 }));
    row.tracks.forEach((track, at) => {
      for (const entry of track.entries) {
        (entry.isHold ? hold : wait)(drawing, entry, x, row.top + at * LANE + LANE / 2, begin, end, picture);
      }
    });
  }
  if (hidden) {
    drawing.append(text(counted(hidden, 'more process is in the table only', 'more processes are in the table only'), { class: 'lane', x: 0, y: height - 6 }));
  }
  return drawing;
}

/// The begin of what was seen, but at least a minute ago: before a page was open there is one long gap.
function observedSince(past, end) {
  const from = Date.parse(past.from);
  const first = past.gaps.find((gap) => Date.parse(gap.from) <= from);
  return first ? Math.max(from, Math.min(Date.parse(first.to), end - SHORTEST)) : from;
}

const title = (content) => {
  const element = svg('title');
  element.textContent = content;
  return element;
};

const text = (content, attributes) => {
  const element = svg('text', attributes);
  element.textContent = content;
  return element;
};

function hold(drawing, entry, x, middle, begin, end) {
  const [from, to] = [x(entry.start), x(entry.stop)];
  const isLost = entry.end === 'expired' || entry.end === 'forced';
  const ending = endOf(entry, true);
  const renewals = counted(entry.renewed.length, 'renewal', 'renewals');
  const times = `${clock(entry.from)} – ${entry.to ? clock(entry.to) : 'now'}`;
  const group = svg('g', { class: isLost ? 'hold lost' : entry.to ? 'hold' : 'hold now' },
    title(`${visible(entry.label ?? entry.handle)} held it for ${duration(entry.stop - entry.start)}, ${times}; ${renewals}; ${ending}`));
  const width = Math.max(2, to - from);
  group.append(svg('rect', { x: from, y: middle - BAR / 2, width, height: BAR, rx: Math.min(2, width / 2) }));
  for (const renewed of entry.renewed.map((it) => Date.parse(it)).filter((it) => it >= begin && it <= end)) {
    group.append(svg('line', { class: 'tick', x1: x(renewed), x2: x(renewed), y1: middle - BAR / 2 + 2, y2: middle + BAR / 2 - 2 }));
  }
  if (isLost) {
    const [at, arm] = [to, 4];
    group.append(svg('path', { class: 'cross', d: `M${at - arm} ${middle - arm}L${at + arm} ${middle + arm}M${at + arm} ${middle - arm}L${at - arm} ${middle + arm}` }));
  }
  drawing.append(group);
}

function wait(drawing, entry, x, middle) {
  const [from, to] = [x(entry.start), x(entry.stop)];
  drawing.append(svg('g', { class: 'wait' },
    title(`${visible(entry.label ?? entry.handle)} waited for ${duration(entry.stop - entry.start)}, from ${clock(entry.from)}; ${endOf(entry, false)}`),
    svg('rect', { class: 'reach', x: from, y: middle - BAR / 2, width: Math.max(2, to - from), height: BAR }),
    svg('line', { x1: from, x2: Math.max(from + 2, to), y1: middle, y2: middle })));
}

function axis(drawing, begin, end, x, width, height, left) {
  const room = Math.max(1, Math.floor((width - left) / 80));
  const step = STEPS.find((it) => (end - begin) / it <= room) ?? Math.ceil((end - begin) / room / 3_600_000) * 3_600_000;
  for (let back = 0; end - back >= begin; back += step) {
    const at = x(end - back);
    const isEdge = at - left < 30;
    drawing.append(svg('line', { class: 'grid', x1: at, x2: at, y1: AXIS - 4, y2: height }));
    if (back === 0 || !isEdge) {
      drawing.append(text(back === 0 ? 'now' : `−${stepText(back)}`, { class: 'scale', x: back === 0 ? width - 2 : at, y: 11, 'text-anchor': back === 0 ? 'end' : 'middle' }));
    }
  }
}

function stepText(ms) {
  const seconds = ms / 1000;
  if (seconds < 60) {
    return `${seconds} s`;
  }
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const rest = String(seconds % 60).padStart(2, '0');
  return hours ? `${hours}:${String(minutes).padStart(2, '0')}:${rest}` : `${minutes}:${rest}`;
}

function summary(past, processes, span) {
  const lost = past.holds.filter((it) => it.end === 'expired' || it.end === 'forced').length;
  const held = `${counted(past.holds.length, 'holder', 'holders')} and ${counted(past.waits.length, 'wait', 'waits')}`;
  return `Time line of the last ${duration(span)}: ${held} of ${counted(processes, 'process', 'processes')}, `
    + `${counted(lost, 'lease', 'leases')} lost. The table below has all of them.`;
}
