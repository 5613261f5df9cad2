// Elements, made without markup: no text of a store is ever parsed as HTML.

const SVG = 'http://www.w3.org/2000/svg';

/// An element; attributes that are null are left out, functions are listeners, strings become text.
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/// The same for a part of a drawing.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') {
      element.addEventListener(name, value);
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/// Sets a text if it differs: a selection in one that stays is kept.
export function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/// Puts `items` into `parent` in their order, one element for each key. An element that was there is used again, and keeps the
/// focus; `made` makes one, and `update` shows an item in it.
export function keyed(parent, items, key, made, update) {
  const before = new Map([...parent.children].map((element) => [element.dataset.at, element]));
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const place = focused ? [...parent.children].findIndex((row) => row.contains(focused)) : -1;
  const used = new Set();
  const times = new Map();
  let next = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    const time = (times.get(name) ?? 0) + 1;
    times.set(name, time);
    // Each element has a name of its own, although two items may have the same key.
    const at = time === 1 ? String(name) : `${name}\n${time}`;
    let element = before.get(at);
    before.delete(at);
    if (!element) {
      element = made(item);
      element.dataset.at = at;
    }
    if (element === next) {
      next = next.nextElementSibling;
    } else {
      parent.insertBefore(element, next);
    }
    used.add(element);
    update(element, item);
  }
  for (const element of [...parent.children]) {
    if (!used.has(element)) {
      element.remove();
    }
  }
  if (focused && document.activeElement !== focused) {
    refocus(parent, focused, place);
  }
}

/// An element that was moved has lost the focus, and so has one that was removed: then its neighbour gets it, or without one
/// the content of the page.
function refocus(parent, focused, place) {
  const row = parent.children[Math.min(place, parent.children.length - 1)];
  const target = focused.isConnected ? focused : row?.querySelector('a, button') ?? parent.closest('main');
  target?.focus({ preventScroll: true });
}
