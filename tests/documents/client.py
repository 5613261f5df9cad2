"""Behind the client of `docs/book/src/reference/protocol.md`: what a test tells it to do.

Arguments: SERVER_URL SCRIPTS PORT

Each line that comes is one order, each line back what came of it.
"""

import json
import socket
import sys


def main():
    url, scripts, port = sys.argv[1:]
    process, lease = Process(url, scripts, "ledger"), None
    with socket.create_connection(("127.0.0.1", int(port))) as test:
        with test.makefile("rw") as orders:
            for order in orders:
                verb, *words = order.split()
                try:
                    if verb == "acquire":
                        key, ttl, wait, *mode = words
                        lease = process.acquire(key, float(ttl), float(wait), *mode)
                        outcome = lease.token
                    elif verb == "hold":
                        until = now() + float(words[0])
                        while now() < until:
                            lease.ensure_held()
                            time.sleep(0.02)
                        outcome = "held"
                    elif verb == "release":
                        outcome = lease.release()
                    elif verb == "keys":
                        outcome = json.dumps(keys_of(words[0]))
                    elif verb == "sections":
                        outcome = json.dumps(sections(process, words[0], int(words[1])))
                    else:
                        raise ValueError(order)
                except (Busy, Lost) as error:
                    outcome = type(error).__name__
                print(outcome, file=orders, flush=True)


def sections(process, key, count):
    """When each section began and ended, by the clock of the machine, and its token."""
    notes = []
    while len(notes) < count:
        with process.acquire(key, ttl=30, wait=60) as lease:
            enter = time.monotonic_ns()
            time.sleep(0.0005)
            lease.ensure_held()
            notes.append([enter, time.monotonic_ns(), lease.token])
    return notes


main()
