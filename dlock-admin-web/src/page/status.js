// The state and the age of the picture, and the banner that says so when the store or the server cannot be reached.

import { setText } from './dom.js';
import { show, visible } from './text.js';
import { clock, duration } from './time.js';

/// How long it stays on the page that an outage is over.
const RELIEF = 8000;

const SIGNS = { live: '●', late: '▲', paused: '❚❚', reading: '◌', away: '▲', lost: '▲', connecting: '◌' };

const at = (id) => document.getElementById(id);

export class Status {
  /// `live`, `reading` or `away` as the server says, `lost` without a server, `connecting` at first.
  #state = 'connecting';
  /// `away` or `lost` from the begin of an outage until there is a new picture.
  #outage = null;
  /// The begin of the outage, by the clock of this browser.
  #since = null;
  #picture = null;
  /// When the shown picture was taken, in the time of `performance.now`.
  #taken = null;
  #relief = 0;
  /// What the banner says without a server.
  #refusal = '';
  paused = false;

  constructor(retry) {
    at('retry').addEventListener('click', retry);
    setInterval(() => this.tick(), 500);
  }

  /// `true` while what is shown may have changed in the store.
  get stale() {
    return this.#state === 'lost' || this.#state === 'away';
  }

  /// A document has come. It is the one that is shown, unless the updates are stopped.
  heard(document, isShown) {
    const { picture, server } = document;
    if (isShown) {
      this.#taken = picture.age_ms === null ? null : performance.now() - picture.age_ms;
    }
    this.#picture = picture;
    this.#server(server);
    this.#enter(picture.state);
  }

  /// The server cannot be reached, or refuses for good.
  lost(reason, isFinal) {
    const why = reason ? `: ${visible(reason)}` : '';
    this.#refusal = isFinal ? `The server refuses this page${why}` : `This page cannot reach its server${why}. It tries again by itself.`;
    this.#enter('lost');
  }

  #server(server) {
    const product = [server.product, server.version].filter(Boolean).join(' ');
    const text = [server.name, product, server.namespace && `namespace ${server.namespace}`].filter(Boolean).join(' · ');
    show(at('server'), text, 96);
  }

  #enter(state) {
    this.#state = state;
    if (this.stale) {
      this.#since = this.#outage ? this.#since : performance.now();
      this.#outage = state;
    }
    if (state === 'away' && typeof this.#picture.away_ms === 'number') {
      this.#since = performance.now() - this.#picture.away_ms;
    }
    if (state === 'lost') {
      this.#banner('lost', this.#refusal);
    } else if (state === 'away') {
      const reason = this.#picture.reason ? `: ${visible(this.#picture.reason)}` : '';
      this.#banner('away', `The store is unreachable${reason}`);
    } else if (state === 'reading') {
      this.#banner('reading', 'The store is being read.');
    } else if (this.#outage) {
      const who = this.#outage === 'lost' ? 'server' : 'store';
      this.#outage = null;
      this.#banner('back', `The ${who} answers again, after ${duration(performance.now() - this.#since)}.`);
      clearTimeout(this.#relief);
      this.#relief = setTimeout(() => at('banner').dataset.kind === 'back' && this.#banner('none', ''), RELIEF);
    } else if (at('banner').dataset.kind !== 'back') {
      this.#banner('none', '');
    }
    this.tick();
  }

  #banner(kind, text) {
    at('banner').dataset.kind = kind;
    // A screen reader says it once, not each time.
    setText(at('banner-text'), text);
    at('retry').hidden = kind !== 'lost';
  }

  /// Shows the age as it is now.
  tick() {
    const age = this.#taken === null ? null : performance.now() - this.#taken;
    const interval = this.#picture?.interval_ms ?? 1000;
    // A large store is read for longer than the interval.
    const isLate = this.#state === 'live' && age !== null && age > 3 * interval + 2 * (this.#picture?.took_ms ?? 0) + 3000;
    let state = this.#state === 'live' && isLate ? 'late' : this.#state;
    if (this.paused && !this.stale) {
      state = 'paused';
    }
    const words = { late: 'late', away: 'unreachable', lost: 'no connection' };
    const progress = this.#picture?.progress;
    const word = state === 'reading' && typeof progress === 'number'
      ? `reading ${Math.floor(progress * 100)} %`
      : words[state] ?? state;
    const chip = at('state');
    chip.dataset.state = state;
    setText(chip.querySelector('.sign'), SIGNS[state] ?? '');
    setText(chip.querySelector('.word'), word);
    setText(chip.querySelector('.age'), age === null ? '' : `${duration(age)} old`);
    const took = this.#picture?.took_ms;
    chip.title = typeof took === 'number'
      ? `Reading the store took ${duration(took)}; it is read each ${duration(interval)} while a page is open`
      : '';
    this.#age(age);
  }

  #age(age) {
    const parts = [];
    if (this.stale) {
      const out = performance.now() - this.#since;
      parts.push(`since ${clock(Date.now() - out)} (${duration(out)})`);
      parts.push(age === null ? 'there is no picture yet' : `the picture below is ${duration(age)} old`);
    }
    setText(at('banner-age'), parts.join('; '));
  }
}
