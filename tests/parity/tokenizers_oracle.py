# SPDX-License-Identifier: Apache-2.0
"""What tokenizers_golden.py and tokenizers_parity.py share: small tokenizers, adversarial texts, and the
answers of `tokenizers` in bytes."""

import base64
import json
import random
import struct

from tokenizers import Tokenizer

SPACES = "  \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000\u200b\ufeff"
WORDS = """In the beginning God created heaven and earth . , ; : ' " ( ) [ ] { } < > / \\ | - _ + = * & ^ % $ # @ ! ?
don't I'LL we've THEY'RE he'd it's CamelCase snake_case HTMLParser 007 1611 3.14159 12345678 x86_64 0xFF <b> </s> <s> [MASK]
naïve façade Ångström ÉCOLE straße İstanbul ﬁnancial ﬀ ① ½ ² ㎏ Ⅷ ǆ Ǆ ǅ ʼn µ Ω Å K ſ 'ſ 'S ἀ ᾳ ϔ Ş̈
日本語 漢字かな交じり カタカナ ーー 中文，標點。 한국어 각 각 가나다 ไทย हिन्दी क्षि العربية עברית ქართული Ελληνικά Русский
👍 👍🏽 👨‍👩‍👧‍👦 🇩🇪🇫🇷 ❤️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 é e\u0301 a\u0301\u0323 a\u0323\u0301 q\u0307\u0323 \u0301\u0302 \u0344 \u1e9b\u0323 \ufb2c \u2126 \U0001d15e \u0f73\u0f71 \u09c7\u09be
\U0001f1e6 \U00010400 \U000e0001 \u200d \u200c \u0d4e \u0600 \ud7b0 \u115f \u1160 \u11ff \uac00\u11a8 \u0915\u094d\u0937 \ua9d6 \ufffd \U0010ffff \x00 \x01\x02 \x7f \x80""".split(
    " "
)


def bytes_of_ranges(text, offsets):
    """Ranges of characters as ranges of bytes."""
    starts = [0]
    for character in text:
        starts.append(starts[-1] + len(character.encode()))
    return [(starts[begin], starts[end]) for begin, end in offsets]


def load(tokenizer):
    """A tokenizer without what changes results for a batch or trims ranges."""
    return Tokenizer.from_str(json.dumps(without_trimming(tokenizer)))


def without_trimming(value):
    if isinstance(value, dict):
        changed = {key: without_trimming(item) for key, item in value.items()}
        if "trim_offsets" in changed:
            changed["trim_offsets"] = False
        if "truncation" in changed:
            changed["truncation"] = changed["padding"] = None
        return changed
    if isinstance(value, list) and len(value) < 1000:
        return [without_trimming(item) for item in value]
    return value


def answer(tokenizer, text):
    encoding = tokenizer.encode(text, add_special_tokens=False)
    return encoding.ids, bytes_of_ranges(text, encoding.offsets), tokenizer.decode(encoding.ids, skip_special_tokens=False)


def random_text(rng, special=()):
    """Words, spaces, any code points, repeats, and special tokens side by side."""
    parts = []
    for _ in range(rng.randint(1, 12)):
        kind = rng.random()
        if kind < 0.45:
            parts.append(rng.choice(WORDS))
        elif kind < 0.65:
            parts.append(rng.choice(SPACES) * rng.choice((1, 1, 1, 2, 3, 17)))
        elif kind < 0.8:
            parts.append(" " + rng.choice(WORDS))
        elif kind < 0.9 and special:
            parts.append(rng.choice(special))
        else:
            first = rng.choice((0, 0x80, 0x300, 0x900, 0x1100, 0x2000, 0x3000, 0xAC00, 0xF900, 0x1F000, 0x10000))
            for _ in range(rng.randint(1, 4)):
                code = rng.randrange(first, min(first + 0x800, 0x110000))
                parts.append("" if 0xD800 <= code < 0xE000 else chr(code))
    return "".join(parts)


def double_array(entries):
    """A map of SentencePiece: a trie of byte strings to texts, in base64."""
    replacements = b""
    offsets = {}
    for key, text in entries.items():
        offsets[key.encode()] = len(replacements)
        replacements += text.encode() + b"\0"
    units = {0: 0}
    used = {0}

    def place(prefix, at):
        children = sorted({key[len(prefix)] for key in offsets if key.startswith(prefix) and len(key) > len(prefix)})
        leaf = prefix in offsets
        offset = 1
        while True:  # an offset at which all children are free
            wanted = [(at ^ offset) ^ byte for byte in children] + ([at ^ offset] if leaf else [])
            if at ^ offset not in used and not any(w in used for w in wanted):
                break
            offset += 1
        used.update(wanted)
        units[at] = units.get(at, 0) | offset << 10 | (1 << 8 if leaf else 0)
        if leaf:
            units[at ^ offset] = offsets[prefix] | 1 << 31
        for byte in children:
            units[at ^ offset ^ byte] = byte
        for byte in children:
            place(prefix + bytes([byte]), at ^ offset ^ byte)

    place(b"", 0)
    size = max(units) + 257
    words = [units.get(i, 0) for i in range(size)]
    blob = struct.pack("<I", size * 4) + struct.pack(f"<{size}I", *words) + replacements
    return base64.b64encode(blob).decode()


CHAR_MAP = double_array(
    {"A": "ä", "ﬁ": "fi", "ﬀ": "ff", "①": "1", "Å": "Å", "K": "K", "㎏": "kg", "e\u0301": "é", "\u3000": " ",
     "\xa0": " ", "½": "1/2", "ʼ": "'", "\u200b": "", "か": "カキ", "🇩": "D", "👍": "+"}
)
