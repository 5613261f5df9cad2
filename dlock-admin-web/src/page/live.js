// A stream of server-sent events that is opened again whenever it ends.

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 5000;
/// A connection can end without a message. A stream that says nothing for so long is opened anew, and its first event says how
/// things are.
const SILENCE = 20_000;
/// How long the reason of a refusal may take.
const PATIENCE = 5000;
/// Refusals that may be over soon, unlike others of 400 to 499.
const PASSING = [408, 425, 429];

export class Live {
  #source = null;
  #path = null;
  #event = null;
  #timer = 0;
  #silence = 0;
  #pause = FIRST_PAUSE;
  #heard;
  #lost;

  /// `heard` gets each document; `lost` is called when the server cannot be reached, with a reason if it gave one, and whether
  /// that is final.
  constructor(heard, lost) {
    this.#heard = heard;
    this.#lost = lost;
    // A browser opens few connections to a server: a tab that nobody sees leaves them to the others.
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) {
        this.#close();
      } else if (this.#path !== null && !this.#source) {
        this.#open();
      }
    });
    addEventListener('pagehide', () => this.#close());
    addEventListener('pageshow', (event) => event.persisted && this.retry());
  }

  /// Listens to `event` at `path`, and to nothing else from now on.
  listen(path, event) {
    if (path === this.#path && this.#source) {
      return;
    }
    [this.#path, this.#event] = [path, event];
    this.retry();
  }

  /// Stops listening, until `listen`.
  stop() {
    this.#path = null;
    this.#close();
  }

  /// Opens the stream at once.
  retry() {
    this.#pause = FIRST_PAUSE;
    if (this.#path !== null) {
      this.#open();
    }
  }

  #open() {
    this.#close();
    if (document.hidden) {
      // A tab that was opened in the background: the stream is opened when it is seen.
      return;
    }
    const source = new EventSource(this.#path);
    this.#source = source;
    source.addEventListener(this.#event, (message) => {
      if (source !== this.#source) {
        return;
      }
      this.#pause = FIRST_PAUSE;
      this.#watch();
      this.#heard(JSON.parse(message.data));
    });
    // Opened again here and not by the browser, which gives up after an answer such as 502 of a proxy.
    source.addEventListener('error', () => {
      if (source === this.#source) {
        source.readyState === EventSource.CLOSED ? this.#ask() : this.#again();
      }
    });
    this.#watch();
  }

  #watch() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#again(), SILENCE);
  }

  /// Asks why there is no stream: the answer has a reason, which an `EventSource` does not show.
  async #ask() {
    const path = this.#path;
    this.#close();
    let reason = null;
    let isFinal = false;
    try {
      const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE) });
      if (answer.ok) {
        await answer.body?.cancel();
      } else {
        isFinal = answer.status < 500 && !PASSING.includes(answer.status);
        const body = await answer.json().catch(() => ({}));
        reason = body.error ?? `the server answers ${answer.status}`;
      }
    } catch {
      // It cannot be reached at all.
    }
    if (path !== this.#path || this.#source || document.hidden) {
      return;
    }
    if (isFinal) {
      this.#lost(reason, true);
    } else {
      this.#again(reason);
    }
  }

  #again(reason = null) {
    this.#close();
    this.#lost(reason, false);
    this.#timer = setTimeout(() => this.#open(), this.#pause);
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }

  #close() {
    clearTimeout(this.#timer);
    clearTimeout(this.#silence);
    this.#source?.close();
    this.#source = null;
  }
}
