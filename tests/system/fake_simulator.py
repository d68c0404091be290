"""The program that starts fake_host.py. Like libars it says at once that it is loaded."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", nargs="?", default="good")
    mode = parser.parse_args().mode
    alive = int(os.environ["ARS_ALIVE_FD"])
    if mode == "mute":
        time.sleep(3600)
    os.write(alive, b"A")
    if mode == "giveup":
        os.write(alive, b"Ethe program has 3 threads when it asks for its first trace")
        time.sleep(0.2)
        sys.exit(1)
    os.close(alive)
    if mode == "nohello":
        time.sleep(3600)
    if mode == "exit":
        sys.stderr.write("usage: prog config\n")
        sys.exit(2)
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    from fake_host import FakeHost  # takes seconds on a busy machine: after the sign of life

    host = FakeHost(mode)
    host.hello()
    host.serve()


if __name__ == "__main__":
    main()
