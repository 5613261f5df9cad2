"""Takes one lock again and again with redis-py, and writes down when, until it is told to stop.

Arguments: SERVER_URL KEY NOTES STOP

Each line of the file NOTES is a section: when it began and when it ended, in nanoseconds of the
clock that all processes of the machine share. It stops when there is a file STOP.
"""

import os
import sys
import time

import redis


def main():
    url, key, file, stop = sys.argv[1:]
    client = redis.Redis.from_url(url)
    lock = client.lock(key, timeout=30, sleep=0.001)
    # Line by line, as it is read meanwhile.
    with open(file, "x", buffering=1) as notes:
        while not os.path.exists(stop):
            if not lock.acquire(blocking_timeout=0.1):
                continue
            enter = time.monotonic_ns()
            time.sleep(0.0005)
            notes.write(f"{enter} {time.monotonic_ns()}\n")
            lock.release()
            time.sleep(0.001)


main()
