"""Reaching out of the machine, or to a neighbour in it."""

from __future__ import annotations

from .attack import Attack


def attack(name: str, tries: str, body: str, says: str = "reached []") -> Attack:
    source = "def causal_mask(n):\n    import os, socket, subprocess\n    reached = []\n"
    source += "".join(f"    {line}\n" for line in body.strip().splitlines())
    source += "    raise RuntimeError(f'reached {reached}')\n"
    return Attack(name, tries, cells={"causal_mask": source}, says=says)


EVERY = """
for family, address in {targets}:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(0.3)
            s.connect(address)
            reached.append(str(address))
    except OSError: pass
"""
ATTACKS = (
    attack(
        "sockets",
        "connects to the internet, to the host and to itself",
        EVERY.format(
            targets="[(socket.AF_INET, ('1.1.1.1', 443)), (socket.AF_INET, ('127.0.0.1', 22)), "
            "(socket.AF_INET6, ('::1', 22)), (socket.AF_INET, ('169.254.169.254', 80))]"
        ),
    ),
    attack(
        "sockets of the host",
        "looks for a container engine's or system's socket",
        EVERY.format(
            targets="[(socket.AF_UNIX, p) for p in ('/var/run/docker.sock', '/run/systemd/private', "
            "'/run/dbus/system_bus_socket', '\\0/tmp/.X11-unix/X0')]"
        ),
    ),
    attack(
        "other families",
        "opens sockets that a network namespace does not hold back",
        "for number in (*range(2, 46),):\n"
        "    try: socket.socket(number, socket.SOCK_DGRAM).close(); reached.append(number)\n"
        "    except OSError: pass",
    ),
    Attack(
        "a server",
        "listens for commands while the others are graded",
        top="""
            import os, socket
            for family, address in ((socket.AF_INET, ("0.0.0.0", 8765)), (socket.AF_UNIX, "/scratch/@MARK@.sock")):
                try:
                    listening = socket.socket(family)
                    listening.bind(address)
                    listening.listen()
                except OSError:
                    pass
        """,
        cells={"causal_mask": "def causal_mask(n): return listening.accept()"},
        verdicts={"causal_mask": ("timeout",)},
    ),
)
