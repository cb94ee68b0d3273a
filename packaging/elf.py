# SPDX-License-Identifier: Apache-2.0
"""Reads and edits what the loader needs of an ELF file: needed libraries and the library path.

Only 64-bit little-endian files are supported. Edits never change the size of a file.
"""

import hashlib
import re
import struct
import subprocess

_DT_NEEDED, _DT_STRTAB, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 14, 15, 29
_PT_LOAD, _PT_DYNAMIC = 1, 2


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


class ElfFile:
    """The dynamic section of a file."""

    def __init__(self, path):
        self.path = path
        self.needed = []
        self.soname = None
        self.library_path = None  # the text of DT_RUNPATH, else of DT_RPATH
        self._path_offset = None
        self._loads = []
        with open(path, "rb") as file:
            header = file.read(64)
            if header[:6] != b"\x7fELF\x02\x01":
                raise ValueError(f"{path}: not a 64-bit little-endian ELF file")
            (offset,) = struct.unpack_from("<Q", header, 32)
            size, count = struct.unpack_from("<HH", header, 54)
            dynamic = None
            for i in range(count):
                file.seek(offset + i * size)
                kind, _, at, address, _, length = struct.unpack("<IIQQQQ", file.read(40))
                if kind == _PT_LOAD:
                    self._loads.append((address, at, length))
                elif kind == _PT_DYNAMIC:
                    dynamic = (at, length)
            if dynamic is None:
                return
            file.seek(dynamic[0])
            entries = list(struct.iter_unpack("<QQ", file.read(dynamic[1])))
            strings = self._file_offset(next(v for tag, v in entries if tag == _DT_STRTAB))
            for tag, value in entries:
                if tag == 0:
                    break
                if tag in (_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH):
                    text = self._string(file, strings + value)
                    if tag == _DT_NEEDED:
                        self.needed.append(text)
                    elif tag == _DT_SONAME:
                        self.soname = text
                    elif tag == _DT_RUNPATH or self.library_path is None:
                        self.library_path = text
                        self._path_offset = strings + value

    def _file_offset(self, address):
        for begin, at, length in self._loads:
            if begin <= address < begin + length:
                return at + address - begin
        raise ValueError(f"{self.path}: no segment contains address {address:#x}")

    @staticmethod
    def _string(file, offset):
        file.seek(offset)
        text = b""
        while b"\0" not in text:
            part = file.read(256)
            if not part:
                break
            text += part
        return text.split(b"\0")[0].decode()

    def set_library_path(self, text):
        """Replaces the library path by a shorter one, in place."""
        old = self.library_path
        if old is None or len(text) > len(old):
            raise ValueError(
                f"{self.path}: library path {old!r} cannot become {text!r}, which is longer"
            )
        with open(self.path, "r+b") as file:
            file.seek(self._path_offset)
            file.write(text.encode().ljust(len(old), b"\0"))
        self.library_path = text


def set_build_id(path):
    """Replaces a build id by a hash of the rest of the file.

    The linker computes it from debug information too, which has the paths of the build.
    """
    content = bytearray(open(path, "rb").read())
    (sections,) = struct.unpack_from("<Q", content, 40)
    size, count, names = struct.unpack_from("<HHH", content, 58)
    if not sections:
        return
    (name_table,) = struct.unpack_from("<Q", content, sections + names * size + 24)
    for i in range(count):
        name, _, _, _, offset, length = struct.unpack_from("<IIQQQQ", content, sections + i * size)
        text = bytes(content[name_table + name : name_table + name + 19])
        if text == b".note.gnu.build-id\0":
            begin = offset + length - 20  # the note ends with its 20 bytes
            content[begin : begin + 20] = bytes(20)
            content[begin : begin + 20] = hashlib.sha1(content).digest()
            with open(path, "r+b") as file:
                file.seek(begin)
                file.write(content[begin : begin + 20])


def newest_versions(path):
    """The newest version that the file needs of each group of symbols: {"GLIBC": (2, 35)}."""
    text = subprocess.run(
        ["readelf", "--version-info", "--wide", path], check=True, capture_output=True, text=True
    ).stdout
    newest = {}
    needs = text[text.find("Version needs section") :] if "Version needs section" in text else ""
    for group, version in re.findall(r"Name: ([A-Z]+)_([0-9.]+)\b", needs):
        numbers = tuple(int(n) for n in version.split("."))
        newest[group] = max(newest.get(group, numbers), numbers)
    return newest
