// What a time line shows of a history: its processes, and how each hold and each wait ended.

import { visible } from './text.js';

const MOST_LANES = 16;
const MOST_TRACKS = 4;

const ENDS = {
  released: 'released', granted: 'granted to the next waiter', expired: 'lease lost: it expired',
  forced: 'lease lost: released by force', left: 'left the queue', unknown: 'end not observed',
};

/// How a hold or a wait ended, in words.
export function endOf(entry, isHold) {
  if (entry.to === null) {
    return isHold ? 'holds it now' : 'waits now';
  }
  const how = !isHold && entry.end === 'granted' ? 'became the holder' : ENDS[entry.end] ?? entry.end ?? 'end not observed';
  return entry.by ? `${how} by ${visible(entry.by)}` : how;
}

/// The processes with something in this time, those of the last moments if there are too many, in the order of their names.
export function lanesOf(past, begin, end) {
  const byLabel = new Map();
  const all = [...past.holds.map((it) => ({ ...it, isHold: true })), ...past.waits.map((it) => ({ ...it, isHold: false }))];
  for (const entry of all) {
    const [from, to] = [Date.parse(entry.from), entry.to ? Date.parse(entry.to) : end];
    if (to >= begin) {
      const label = entry.label ?? entry.handle ?? 'unknown';
      const lane = byLabel.get(label) ?? { label, entries: [], last: 0 };
      lane.entries.push({ ...entry, start: from, stop: to });
      lane.last = Math.max(lane.last, to);
      byLabel.set(label, lane);
    }
  }
  const latest = [...byLabel.values()].sort((a, b) => b.last - a.last || (a.label < b.label ? -1 : 1));
  const lanes = latest.slice(0, MOST_LANES).sort((a, b) => (a.label < b.label ? -1 : 1));
  return { lanes: lanes.map((lane) => ({ ...lane, tracks: tracksOf(lane.entries) })), hidden: latest.length - lanes.length };
}

/// Entries that overlap lie below each other; the wait and the hold of one claim are in one line.
function tracksOf(entries) {
  const byHandle = new Map();
  for (const entry of entries) {
    const parts = byHandle.get(entry.handle) ?? [];
    parts.push(entry);
    byHandle.set(entry.handle, parts);
  }
  const runs = [...byHandle.values()].map((parts) => ({
    parts, start: Math.min(...parts.map((it) => it.start)), stop: Math.max(...parts.map((it) => it.stop)),
  })).sort((a, b) => a.start - b.start);
  const tracks = [];
  for (const run of runs) {
    let track = tracks.find((it) => it.stop <= run.start);
    if (!track) {
      // More than a few waiters of one process are one thick line: nobody counts them here.
      track = tracks.length < MOST_TRACKS ? { entries: [], stop: 0 } : tracks.at(-1);
      if (!tracks.includes(track)) {
        tracks.push(track);
      }
    }
    track.entries.push(...run.parts);
    track.stop = Math.max(track.stop, run.stop);
  }
  return tracks;
}
