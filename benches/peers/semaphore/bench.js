// Tasks that hold one of some permits of redis-semaphore, for `dlock-bench modes --peer`.
// Arguments: URL, key, permits, tasks, start and end in ns of the monotonic clock. Prints one line of JSON.
const Redis = require('ioredis');
const { Semaphore } = require('redis-semaphore');

const [url, key, permits, tasks, start, end] = process.argv.slice(2);
const [from, until] = [BigInt(start), BigInt(end)];
const now = () => process.hrtime.bigint();
const sleep = ms => new Promise(done => setTimeout(done, ms));

async function main() {
  const client = new Redis(url);
  // The interval between two tries and the renewal of permits are those of the library.
  const options = { lockTimeout: 10000, acquireTimeout: 1e9 };
  const counts = Array(Number(tasks)).fill(0);
  const log = [];
  const task = async index => {
    while (now() < from) await sleep(1);
    while (now() < until) {
      const semaphore = new Semaphore(client, key, Number(permits), options);
      await semaphore.acquire();
      const entered = now();
      await sleep(0);
      const left = now();
      await semaphore.release();
      if (left < until) {
        counts[index] += 1;
        log.push([Number(entered - from), Number(left - from)]);
      }
    }
  };
  await Promise.race([Promise.all(counts.map((_, index) => task(index))), sleep(Number(until - now()) / 1e6 + 2000)]);
  // The end of the process does not wait for a pipe.
  process.stdout.write(JSON.stringify({ counts, log }) + '\n', () => process.exit(0));
}
main();
