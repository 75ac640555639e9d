"""Emulated links against a token bucket of the kernel: the time of the same messages.

Between two network namespaces, whose link the kernel limits to a rate (``tc tbf``), messages go by
a socket; between two threads by a mailbox whose link is emulated
(`hogshare.engine.emulated_links`). Both have the same bytes and the same rates. Needs root and
``ip`` and ``tc`` on Linux.

    python bench/links.py --json bench/results/links.json
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import script

from hogshare.engine.emulated_links import Delayed
from hogshare.links import LAN, Link
from hogshare.shm.mailbox import Edge, mail_bytes, mailbox_of, shapes

NUMBERS = 20_000  # of a message: 160 kB
MESSAGES = 60
PATIENCE, POLL = 60.0, 1e-4  # seconds
SLOWER = (15.0, 60.0)  # times, as in `hogshare.links.preset`
NAMES = ("hogshare-a", "hogshare-b")
ADDRESS, PORT = "10.231.0.2", 5201
OVERHEAD = 1514 / 1448  # bytes of a frame of Ethernet over those of a message in it

RECEIVER = """
import socket, sys, time
server = socket.create_server(("", {port}))
print("ready", flush=True)
end, left = server.accept()[0], {total}
while left:
    left -= len(end.recv(min(left, 1 << 16)))
print(time.monotonic(), flush=True)
"""
SENDER = """
import socket, time
end = socket.create_connection(("{address}", {port}))
print(time.monotonic(), flush=True)
end.sendall(bytes({total}))
"""


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds.

    Raises
    ------
    TimeoutError
    """
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("no message has gone or come for too long")
        time.sleep(POLL)


def emulated(rate: float) -> float:
    """Seconds until all messages have been taken."""
    named = shapes(1, 4, 8, NUMBERS)
    box = mailbox_of({name: np.zeros(shape, kind) for name, (shape, kind) in named.items()})
    transport = Delayed([Link(0.0, rate)], 8)
    transport.begin(box)
    writer, reader = Edge(box, 0, transport), Edge(box, 0)
    values = np.ones(NUMBERS)

    def write() -> None:
        for _ in range(MESSAGES):
            until(lambda: writer.post(values))

    thread = threading.Thread(target=write)
    began = time.monotonic()
    thread.start()
    for _ in range(MESSAGES):
        until(lambda: reader.has_mail)
        reader.take()
    seconds = time.monotonic() - began
    thread.join()
    return seconds


def by_kernel(rate: float) -> float:
    """Seconds until the same bytes have come through the kernel's bucket."""
    bits = f"{8 * rate * OVERHEAD:.0f}bit"
    a, b = NAMES
    setup = [
        *(f"ip netns add {name}" for name in NAMES),
        f"ip link add hog0 netns {a} type veth peer name hog1 netns {b}",
        f"ip -n {a} addr add 10.231.0.1/24 dev hog0",
        f"ip -n {b} addr add {ADDRESS}/24 dev hog1",
        f"ip -n {a} link set hog0 up",
        f"ip -n {b} link set hog1 up",
        f"tc -n {a} qdisc add dev hog0 root tbf rate {bits} burst 32kb latency 50ms",
    ]
    told = {"port": PORT, "address": ADDRESS, "total": MESSAGES * mail_bytes(0, NUMBERS, 8)}
    try:
        for line in setup:
            subprocess.run(line.split(), check=True, capture_output=True)
        within = ["ip", "netns", "exec"]
        receiver = subprocess.Popen(
            [*within, b, sys.executable, "-c", RECEIVER.format(**told)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert receiver.stdout is not None
        receiver.stdout.readline()
        sender = subprocess.run(
            [*within, a, sys.executable, "-c", SENDER.format(**told)],
            check=True,
            capture_output=True,
            text=True,
        )
        return float(receiver.communicate()[0]) - float(sender.stdout)
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def measure(options: Any) -> dict[str, Any]:
    """Both at each rate."""
    found = []
    for times in SLOWER:
        rate = LAN.bandwidth / times
        contestants = {
            "emulated_s": lambda k, rate=rate: emulated(rate),
            "kernel_s": lambda k, rate=rate: by_kernel(rate),
        }
        runs = script.in_rounds(contestants, options.rounds, warm=False)
        asked = MESSAGES * mail_bytes(0, NUMBERS, 8) / rate
        medians = {name: statistics.median(values) for name, values in runs.items()}
        pairs = list(zip(*runs.values(), strict=True))
        found.append({"slower": times, "asked_s": asked, **medians, "runs": pairs})
    script.show([{k: v for k, v in one.items() if k != "runs"} for one in found], "seconds")
    return {"messages": MESSAGES, "numbers": NUMBERS, "links": found}


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=3)
