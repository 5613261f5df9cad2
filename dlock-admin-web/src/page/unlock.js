// The dialog that releases a lock by force. It asks for the token of the operator and for the key, each time.

import { h, setText } from './dom.js';
import { show, unescaped, visible } from './text.js';
import { duration } from './time.js';

const FAILED = { 401: 'The token is wrong', 403: 'This page may not unlock', 409: 'Nothing was changed', 429: 'The token is wrong', 503: 'The store does not answer' };

export function unlockDialog(key) {
  let holder = null;
  let isDone = false;
  /// Counts what the dialog was opened for: a late answer belongs to what it was asked for.
  let turn = 0;

  const about = h('p');
  const name = h('span');
  const typed = h('input', { id: 'unlock-key', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', 'aria-describedby': 'unlock-escapes', class: 'raw' });
  const token = h('input', { id: 'unlock-token', type: 'password', autocomplete: 'off' });
  const changed = h('p', { class: 'warned', role: 'status' });
  const result = h('p', { class: 'result', role: 'alert' });
  const submit = h('button', { type: 'submit', class: 'danger' }, 'Unlock');
  const close = h('button', { type: 'button', click: () => element.close() }, 'Cancel');
  const hasHidden = visible(key) !== key;
  const form = h('form', { submit: send, novalidate: true },
    h('div', { class: 'field' }, h('label', { for: 'unlock-key' }, 'Type the key again'), typed,
      h('p', { id: 'unlock-escapes', class: 'hint', hidden: !hasHidden }, 'Characters shown as \\u{…} can be typed like that.')),
    h('div', { class: 'field' }, h('label', { for: 'unlock-token' }, 'Unlock token'), token),
    changed, result, h('div', { class: 'buttons' }, close, submit));
  const element = h('dialog', { 'aria-labelledby': 'unlock-title', class: 'unlock', close: closed },
    h('h2', { id: 'unlock-title' }, 'Unlock ', show(name, key, 80)), about,
    h('p', { class: 'hint' }, 'The holder is notified at once, and loses its lease. Work that it has already started can still complete after another '
      + 'process has the lock, unless the resource checks fencing tokens.'),
    form);

  /// The event comes later than the end of the dialog, which may have been opened again by then.
  function closed() {
    if (!element.open) {
      forget();
    }
  }

  /// Nothing typed here outlives the dialog.
  function forget() {
    typed.value = '';
    token.value = '';
    holder = null;
    turn += 1;
  }

  async function send(event) {
    event.preventDefault();
    if (isDone) {
      element.close();
      return;
    }
    const meant = typed.value === key ? key : unescaped(typed.value);
    if (meant !== key) {
      fail('The typed key differs from the key of this lock. Nothing was changed.', typed);
      return;
    }
    if (!token.value) {
      fail('The unlock token is missing: it is printed or named where the server was started.', token);
      return;
    }
    const asked = turn;
    submit.disabled = true;
    setText(result, 'Asking the server…');
    result.dataset.kind = 'asking';
    try {
      const answer = await fetch('api/unlock', {
        method: 'POST',
        // A proxy with a login has a use for `authorization`.
        headers: { 'x-dlock-token': token.value, 'content-type': 'application/json' },
        body: JSON.stringify({ key, typed: meant, handle: holder.handle ?? null, token: holder.token }),
      });
      const body = await answer.json().catch(() => ({}));
      if (asked !== turn) {
        return;
      }
      // Before it gets the focus, which no disabled button can have.
      submit.disabled = false;
      if (answer.ok) {
        succeed(body);
      } else {
        // Without a reason the answer is that of a proxy, whose login may have ended.
        const what = (body.error && FAILED[answer.status]) || `The server answers ${answer.status}`;
        fail(`${what}${body.error ? `: ${visible(body.error)}` : ''}`, [401, 429].includes(answer.status) ? token : typed);
      }
    } catch {
      if (asked === turn) {
        fail('The server cannot be reached: whether the lock was released is unknown.', typed);
      }
    } finally {
      if (asked === turn) {
        submit.disabled = false;
      }
    }
  }

  function succeed(body) {
    isDone = true;
    result.dataset.kind = body.outcome === 'changed' ? 'failed' : 'done';
    setText(result, visible(body.text ?? body.outcome));
    setText(submit, 'Close');
    close.hidden = true;
    for (const field of form.querySelectorAll('.field')) {
      field.hidden = true;
    }
    setText(changed, '');
    submit.classList.remove('danger');
    submit.focus();
  }

  function fail(text, field) {
    result.dataset.kind = 'failed';
    setText(result, text);
    field.focus();
  }

  return {
    element,
    open(it) {
      forget();
      holder = it;
      isDone = false;
      submit.disabled = false;
      setText(result, '');
      setText(changed, '');
      result.dataset.kind = '';
      setText(submit, 'Unlock');
      submit.classList.add('danger');
      close.hidden = false;
      for (const field of form.querySelectorAll('.field')) {
        field.hidden = false;
      }
      const label = show(h('strong'), it.label ?? it.handle ?? 'unknown', 60);
      about.replaceChildren('Held by ', label, ` for ${duration(it.held_ms)}.`);
      element.showModal();
      typed.focus();
    },
    /// Says that the holder is no longer the one that the dialog was opened for; the server would refuse too.
    update(lock) {
      if (holder && !isDone) {
        const isThere = lock?.holders.some((it) => it.handle === holder.handle && it.token === holder.token);
        setText(changed, isThere ? '' : '▲ This holder no longer holds the lock.');
      }
    },
  };
}
