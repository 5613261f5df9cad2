"""The lock of redis-py, as somebody at the other end of a socket wants it.

Arguments: SERVER_URL PORT

Each line that comes is one order, each line back what came of it: what the lock returned, or the
name of the error that it raised.
"""

import socket
import sys
import time

import redis
from redis.exceptions import LockError

lock = None


def carry_out(client, order):
    global lock
    verb, *words = order.split()
    if verb == "lock":
        # Without a timeout the lock has no time to live.
        name, timeout = words[0], float(words[1]) if len(words) > 1 else None
        lock = client.lock(name, timeout=timeout, sleep=0.05)
        return "ready"
    if verb == "try":
        return lock.acquire(blocking=False)
    if verb == "wait":
        got = lock.acquire(blocking_timeout=float(words[0]))
        # The clock that all processes of the machine share.
        return f"{got} {time.monotonic_ns()}"
    if verb == "release":
        lock.release()
        return "released"
    if verb == "extend":
        return lock.extend(float(words[0]), replace_ttl=True)
    if verb == "reacquire":
        return lock.reacquire()
    if verb == "owned":
        return lock.owned()
    raise ValueError(order)


def main():
    url, port = sys.argv[1:]
    client = redis.Redis.from_url(url)
    with socket.create_connection(("127.0.0.1", int(port))) as test:
        with test.makefile("rw") as orders:
            for order in orders:
                try:
                    outcome = carry_out(client, order)
                except LockError as error:
                    outcome = type(error).__name__
                print(outcome, file=orders, flush=True)


main()
