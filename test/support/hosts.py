"""Two hosts on one machine, as far as programs can tell: namespaces of their own for network,
processes and host name, joined by a cable that can be pulled.

The cable is a pair of veth devices. Where the kernel has none, or packets are to be lost by their
size, it is a pair of TUN devices between which a process carries packets. It needs root; why_not()
says what else is missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pathlib
import select
import struct
import subprocess
import sys
import time
from typing import Any, Iterator, Sequence

CABLE = "cable"
NAMES = ("host-a", "host-b")
# Above 127.0.0.1: Gloo connects from the higher address to the lower one, so that a host which
# listens on loopback is not reached.
ADDRESSES = ("192.168.77.1", "192.168.77.2")
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x1, 0x1000
_READY_S = 20.0
_LARGEST = 65536
_UNSHARE = ("unshare", "-n", "-u", "-p", "-f", "--mount-proc", "--kill-child")


def why_not() -> str:
    """Why there cannot be two hosts here; empty: there can."""
    if os.geteuid() != 0:
        return "namespaces of networks need root"
    if not pathlib.Path("/dev/net/tun").exists():
        return "this machine has no /dev/net/tun"
    probe = "ip tuntap add dev probe mode tun"
    made = subprocess.run([*_UNSHARE, "sh", "-c", probe], capture_output=True, text=True)
    return made.stderr.strip() if made.returncode else ""


class Hosts:
    """Both of them; see two_hosts()."""

    def __init__(self, insides: list[int]):
        #: A process that lives in each.
        self._insides = insides

    def inside(self, host: int, command: Sequence[Any]) -> list[str]:
        """The command that runs a command there."""
        enter = ["nsenter", "-t", self._insides[host], "-n", "-u", "-p", "-m", "--"]
        return [*map(str, enter), *map(str, command)]

    def _ip(self, host: int, *words: str) -> None:
        subprocess.run(self.inside(host, ["ip", *words]), check=True)

    def plug(self) -> None:
        for host in range(2):
            self._ip(host, "link", "set", CABLE, "up")

    def cut(self) -> None:
        """The sockets hear nothing of it, as where a switch loses its power."""
        for host in range(2):
            self._ip(host, "link", "set", CABLE, "down")


@contextlib.contextmanager
def two_hosts(largest_packet: int = _LARGEST) -> Iterator[Hosts]:
    """Joined by a cable; each can be reached at its address. Packets of more bytes are lost on the
    way, and nobody is told, as where a switch has another MTU than the hosts."""
    processes = []
    try:
        insides = []
        for name in NAMES:
            script = f"hostname {name}; ip link set lo up; exec sleep infinity"
            processes.append(subprocess.Popen([*_UNSHARE, "sh", "-c", script]))
            insides.append(_child_of(processes[-1].pid))
        if largest_packet < _LARGEST or not _has_veth(insides):
            words = [sys.executable, __file__, *map(str, [largest_packet, *insides])]
            processes.append(subprocess.Popen(words))
        hosts = Hosts(insides)
        for host in range(2):
            _until(lambda: _has_cable(hosts, host))
            there = ADDRESSES[1 - host]
            hosts._ip(host, "address", "add", ADDRESSES[host], "peer", there, "dev", CABLE)
        hosts.plug()
        yield hosts
    finally:
        for process in processes:
            process.kill()  # and with it all that runs on the host
        for process in processes:
            process.wait()


def _has_veth(insides: list[int]) -> bool:
    """Joins the networks of two processes, where the kernel can."""
    ends = [[CABLE, "netns", str(inside)] for inside in insides]
    words = ["ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1]]
    return subprocess.run(words, capture_output=True).returncode == 0


def _until(condition: Any) -> None:
    deadline = time.monotonic() + _READY_S
    while not condition():
        assert time.monotonic() < deadline, "the hosts are not ready"
        time.sleep(0.01)


def _child_of(process: int) -> int:
    children = pathlib.Path(f"/proc/{process}/task/{process}/children")
    _until(lambda: children.read_text().split())
    child = int(children.read_text().split()[0])
    ours = os.readlink("/proc/self/ns/net")
    _until(lambda: "sleep" in pathlib.Path(f"/proc/{child}/comm").read_text())
    assert os.readlink(f"/proc/{child}/ns/net") != ours
    return child


def _has_cable(hosts: Hosts, host: int) -> bool:
    show = hosts.inside(host, ["ip", "link", "show", CABLE])
    return subprocess.run(show, capture_output=True).returncode == 0


def _end_of_cable(inside: int) -> int:
    """A descriptor for what leaves the host, and what arrives."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{inside}/ns/net", "rb") as network:
        if libc.setns(network.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", CABLE.encode(), _IFF_TUN | _IFF_NO_PI))
    return end


def _carry(largest: int, ends: list[int]) -> None:
    while True:
        for end in select.select(ends, [], [])[0]:
            with contextlib.suppress(OSError):  # the other end is down
                packet = os.read(end, _LARGEST)
                if len(packet) <= largest:
                    os.write(ends[1 - ends.index(end)], packet)


if __name__ == "__main__":
    _carry(int(sys.argv[1]), [_end_of_cable(int(inside)) for inside in sys.argv[2:]])
