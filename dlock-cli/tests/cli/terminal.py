"""Runs a program in a terminal, waits for its texts and presses keys.

The arguments: columns and rows, then the steps in order, then `--`, then the program.

    see:TEXT      waits for TEXT after the texts seen before; prints `seen TEXT`
    press:KEYS    types KEYS, with the escapes of Python
    size:80x24    resizes the terminal
    signal:TERM   sends a signal

At the end it prints the exit code, whether the program left its screen, and whether the terminal echoes
again.
"""
import codecs, fcntl, os, pty, re, select, signal, struct, sys, termios, time

# A slow scan of many keys takes minutes on a loaded machine.
LIMIT = 300
split = sys.argv.index("--")
(columns, rows), steps, program = sys.argv[1].split("x"), sys.argv[2:split], sys.argv[split + 1:]

pid, terminal = pty.fork()
if pid == 0:
    # The size is there before the program looks at it.
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(columns), 0, 0))
    # A test that runs in the background, or under nohup, was started to ignore some.
    for each in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT:
        signal.signal(each, signal.SIG_DFL)
    os.execv(program[0], program)

# What a terminal sends when its window gets the focus. A key that arrives at the moment of a new size is read only with what
# comes next.
FOCUS, PAUSE = b"\x1b[I", 1

written, seen, open_, moved = b"", 0, True, time.monotonic()


def read():
    """Takes what comes within a moment."""
    global written, open_, moved
    if time.monotonic() > moved + PAUSE:
        moved = time.monotonic()
        try:
            # A shell would take it for a part of a command.
            if not termios.tcgetattr(terminal)[3] & termios.ICANON:
                os.write(terminal, FOCUS)
        except (OSError, termios.error):
            # The program has ended. What it wrote is still to be read.
            pass
    if not select.select([terminal], [], [], 0.05)[0]:
        return
    try:
        data = os.read(terminal, 65536)
    except OSError:
        data = b""
    written += data
    open_ = bool(data)


def plain(data):
    """The letters alone; what they look like and where they stand is left out."""
    return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", data).decode(errors="replace")


for step in steps:
    what, _, value = step.partition(":")
    if what == "see":
        end = time.monotonic() + LIMIT
        while value not in plain(written[seen:]):
            if not open_ or time.monotonic() > end:
                sys.exit(f"not seen: {value}\n{plain(written)[-4000:]}")
            read()
        # What comes next is to be new.
        seen = len(written)
        print("seen", value, flush=True)
    elif what == "press":
        os.write(terminal, codecs.decode(value, "unicode_escape").encode())
    elif what == "size":
        columns, rows = value.split("x")
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(columns), 0, 0))
    elif what == "signal":
        os.kill(pid, getattr(signal, "SIG" + value))

end = time.monotonic() + LIMIT
status = None
while status is None and time.monotonic() < end:
    read()
    done, code = os.waitpid(pid, os.WNOHANG)
    status = code if done else None
if status is None:
    os.kill(pid, signal.SIGKILL)
    sys.exit(f"it goes on\n{plain(written)[-4000:]}")
while select.select([terminal], [], [], 0)[0] and open_:
    read()
echoes = termios.tcgetattr(terminal)[3] & termios.ECHO and termios.tcgetattr(terminal)[3] & termios.ICANON
print("code", os.waitstatus_to_exitcode(status))
print("left its screen", b"\x1b[?1049l" in written)
print("echoes", bool(echoes))
