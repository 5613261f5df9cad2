// Durations and instants as text.

const UNKNOWN = '–';

const two = (number) => String(number).padStart(2, '0');

/// A duration in milliseconds, in two units at most: `420 ms`, `3.7 s`, `98 s`, `12 min 05 s`, `3 h 12 min`, `4 d 3 h`.
export function duration(ms) {
  if (ms === null || ms === undefined) {
    return UNKNOWN;
  }
  const seconds = Math.floor(ms / 1000);
  if (ms < 1000) {
    return `${Math.max(0, Math.round(ms))} ms`;
  }
  if (ms < 10_000) {
    return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  }
  if (seconds < 120) {
    return `${seconds} s`;
  }
  if (seconds < 7200) {
    return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  }
  const hours = Math.floor(seconds / 3600);
  if (hours < 48) {
    return `${hours} h ${two(Math.floor(seconds / 60) % 60)} min`;
  }
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/// An instant of the server in the time zone of the reader, with that zone.
export function absolute(instant) {
  const date = new Date(instant);
  if (Number.isNaN(date.getTime())) {
    return UNKNOWN;
  }
  const zone = -date.getTimezoneOffset();
  const [sign, minutes] = [zone < 0 ? '−' : '+', Math.abs(zone)];
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${clock(date)} UTC${sign}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

/// The time of day.
export function clock(instant) {
  const date = new Date(instant);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/// Shows a duration in a `time` element whose title is the instant.
export function showTime(element, text, instant) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
  if (instant) {
    element.dateTime = instant;
    element.title = absolute(instant);
  } else {
    element.removeAttribute('datetime');
    element.removeAttribute('title');
  }
  return element;
}

/// How long before `now` an instant was; both are instants of the server, whose clock need not be the one of this browser.
export function before(now, instant) {
  const ms = Date.parse(now) - Date.parse(instant);
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}
