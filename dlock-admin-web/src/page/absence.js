// A view that has nothing to show: what was read, and when. An outage never looks as if all locks were free.

import { visible } from './text.js';
import { clock } from './time.js';

/// What a document was read from, and when: `Read at 12:03:04 from db-1:6379, namespace dlock.`
export function reading({ picture, server }) {
  const source = [server.name, server.namespace && `namespace ${server.namespace}`].filter(Boolean).map(visible).join(', ');
  return `Read at ${clock(picture.taken)}${source && ` from ${source}`}.`;
}

/// The text of a view without `things`: `is` says what there is not, and `was` the same of an earlier reading.
export function absence(document, things, is, was) {
  const { state, taken } = document.picture;
  if (taken === null) {
    return state === 'reading' ? `The ${things} appear when the store has been read.` : `The ${things} are unknown: the store was not read yet.`;
  }
  return `${state === 'away' ? was : is} ${reading(document)}`;
}
