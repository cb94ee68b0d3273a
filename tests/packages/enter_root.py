# SPDX-License-Identifier: Apache-2.0
"""Runs a shell script in a bare system, in new namespaces without a network.

    unshare --net --mount --pid --fork --kill-child python3 enter_root.py ROOT USER SCRIPT
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys

SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def user_of(name):
    """User id, group id and home of a user of the bare system."""
    with open("/etc/passwd", encoding="utf-8") as file:
        for line in file:
            fields = line.rstrip("\n").split(":")
            if fields[0] == name:
                return int(fields[2]), int(fields[3]), fields[5]
    raise SystemExit(f"enter_root.py: the bare system has no user {name}")


def main():
    root, user, script = sys.argv[1:]
    # Ranks of one machine need its own address.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", IFF_UP, b""))
    os.makedirs(os.path.join(root, "dev/shm"), exist_ok=True)
    subprocess.run(["mount", "-t", "proc", "proc", os.path.join(root, "proc")], check=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", os.path.join(root, "dev/shm")],
        check=True,
    )
    os.chroot(root)
    uid, gid, home = user_of(user)
    os.chdir(home)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    os.umask(0o022)
    path = "/usr/local/bin:/usr/bin:/bin" + (":/usr/sbin:/sbin" if uid == 0 else "")
    environment = {"PATH": path, "HOME": home, "USER": user, "LANG": "C.UTF-8"}
    environment["DEBIAN_FRONTEND"] = "noninteractive"
    os.execve("/bin/sh", ["sh", "-c", script], environment)


main()
