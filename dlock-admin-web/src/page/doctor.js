// The findings of `dlock doctor`, for each server, the worst first.

import { h, setText } from './dom.js';
import { counted, prose, show } from './text.js';
import { clock, duration } from './time.js';

const GRADES = { broken: '✕', risk: '▲', unknown: '?', note: 'i', ok: '✓' };

export function doctor(page) {
  let asked = null;
  let tick = 0;

  const again = h('button', { type: 'button', click: ask }, 'Check again');
  const when = h('p', { class: 'range' });
  const servers = h('div', { class: 'servers' });
  const failed = h('p', { class: 'empty', role: 'status' }, 'The servers are checked…');
  const element = h('section', { class: 'view', 'aria-labelledby': 'title' },
    h('div', { class: 'title' }, h('h1', { id: 'title' }, 'Doctor'), again, when), failed, servers);

  async function ask() {
    again.disabled = true;
    failed.hidden = false;
    setText(failed, 'The servers are checked…');
    try {
      const { servers: all, age_ms: old } = await page.get('api/doctor');
      servers.replaceChildren(...[...all].sort((a, b) => worst(a) - worst(b)).map(server));
      failed.hidden = true;
      asked = performance.now() - (old ?? 0);
      const bad = all.flatMap((it) => it.findings).filter((it) => it.grade === 'broken' || it.grade === 'risk').length;
      page.say(bad ? counted(bad, 'finding needs attention', 'findings need attention') : 'No finding needs attention');
    } catch (error) {
      setText(failed, `The check failed: ${error.message}`);
    }
    again.disabled = false;
    age();
  }

  function age() {
    setText(when, asked === null ? '' : `checked at ${clock(Date.now() - (performance.now() - asked))}, ${duration(performance.now() - asked)} ago`);
  }
  tick = setInterval(age, 1000);
  ask();

  return {
    element,
    title: 'Doctor',
    stream: () => ({ path: 'api/picture/events?per=1', event: 'picture' }),
    update: () => {},
    stop: () => clearInterval(tick),
  };
}

/// The place of the worst finding of a server among the grades.
function worst({ findings }) {
  return Math.min(...findings.map((it) => Object.keys(GRADES).indexOf(it.grade)));
}

function server({ server: name, findings }) {
  const order = Object.keys(GRADES);
  const sorted = [...findings].sort((a, b) => order.indexOf(a.grade) - order.indexOf(b.grade));
  const sums = order.map((grade) => [grade, findings.filter((it) => it.grade === grade).length]).filter(([, number]) => number > 0);
  return h('section', { class: 'server' },
    h('h2', {}, name === null ? h('span', {}, 'All servers together') : show(h('span'), name), h('span', { class: 'sums' }, sums.map(([grade, number]) => `${number} ${grade}`).join(', '))),
    h('ul', { class: 'findings' }, ...sorted.map(finding)));
}

function finding({ grade, topic, text, why, remedy }) {
  return h('li', { 'data-grade': grade },
    h('span', { class: 'grade' }, h('span', { class: 'sign', 'aria-hidden': 'true' }, GRADES[grade] ?? '?'), h('span', {}, grade)),
    h('div', {},
      h('p', {}, show(h('strong', { class: 'topic' }), topic), ' ', prose(h('span'), text)),
      why ? h('p', { class: 'remedy' }, prose(h('span'), why)) : null,
      remedy ? h('p', { class: 'remedy' }, h('span', { class: 'lead' }, 'Remedy: '), prose(h('span'), remedy)) : null));
}
