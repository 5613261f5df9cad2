// Keys, holders and labels as text: any client of the store can write any character into them.

/// Characters that are not seen, or that change how others are seen: control characters, format and bidirectional marks, fillers,
/// variation selectors, blanks of scripts, spaces but the usual one, and what has no meaning. The command has the same ones.
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u{13441}\u{13442}\u{16fe4}\u{1d159}]|(?! )\p{Zs}/u;

const ESCAPE = /\\u\{([0-9a-f]{1,6})\}/gi;

function escaped(character) {
  return `\\u{${character.codePointAt(0).toString(16)}}`;
}

/// The text in parts: what is seen as it is, and what stands for a hidden character.
function parts(text) {
  return [...String(text)].map((character) =>
    HIDDEN.test(character) ? { text: escaped(character), hidden: true } : { text: character, hidden: false });
}

/// The text with its hidden characters as `\u{…}`.
export function visible(text) {
  return parts(text).map((part) => part.text).join('');
}

/// A number with its words, of which `one` are those of a single thing.
export function counted(number, one, many) {
  return `${number.toLocaleString('en')} ${number === 1 ? one : many}`;
}

/// What a user meant who typed `\u{…}` for a character that cannot be typed.
export function unescaped(typed) {
  return typed.replace(ESCAPE, (whole, hex) => {
    const code = parseInt(hex, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

/// The first and the last parts, if they do not fit into `limit` characters together.
function cut(all, limit) {
  const length = all.reduce((sum, part) => sum + part.text.length, 0);
  if (length <= limit) {
    return all;
  }
  const take = (from, room) => {
    let count = 0;
    for (let used = 0; count < from.length && used + from[count].text.length <= room; count += 1) {
      used += from[count].text.length;
    }
    return from.slice(0, count);
  };
  const room = Math.ceil(limit * 0.6) - 1;
  const head = take(all, room);
  const tail = take([...all].reverse(), limit - 1 - room).reverse();
  return [...head, { text: '…', hidden: true, cut: true }, ...tail];
}

/// The text as `show` shows it, for a drawing.
export function shortened(text, limit) {
  return cut(parts(text), limit).map((part) => part.text).join('');
}

const shown = new WeakMap();

/// Shows a text in an element, cut in the middle if it is longer than `limit`; the whole is then its title.
export function show(element, text, limit = Infinity) {
  const is = `${limit} ${text}`;
  if (shown.get(element) === is) {
    return element;
  }
  shown.set(element, is);
  element.classList.add('raw');
  element.dir = 'ltr';
  const all = parts(text);
  const some = cut(all, limit);
  const nodes = [];
  for (const part of some) {
    const last = nodes.at(-1);
    if (part.hidden) {
      const mark = document.createElement('span');
      mark.className = part.cut ? 'cut' : 'mark';
      mark.textContent = part.text;
      nodes.push(mark);
    } else if (last?.nodeType === Node.TEXT_NODE) {
      last.data += part.text;
    } else {
      nodes.push(document.createTextNode(part.text));
    }
  }
  element.replaceChildren(...nodes);
  if (some === all) {
    element.removeAttribute('title');
  } else {
    element.title = all.map((part) => part.text).join('');
  }
  return element;
}

/// Prose of the server, in which `…` is code.
export function prose(element, text) {
  const pieces = String(text).split('`');
  // A mark without its partner is a character like others.
  const paired = pieces.length % 2 === 1;
  const nodes = paired
    ? pieces.map((piece, at) => {
        const node = document.createElement(at % 2 ? 'code' : 'span');
        node.textContent = visible(piece);
        return node;
      })
    : [document.createTextNode(visible(text))];
  element.replaceChildren(...nodes);
  return element;
}
