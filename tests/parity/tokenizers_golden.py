#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tokenizers_golden.json: small tokenizers and what `tokenizers` 0.23.3 makes of texts.

    pip install tokenizers==0.23.3
    python3 tests/parity/tokenizers_golden.py

The vocabularies are trained on data/kjv.txt. Ranges count bytes, and post-processors do not trim them.
"""

import json
import pathlib
import random

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers_oracle import CHAR_MAP, WORDS, answer, load, random_text

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = pathlib.Path(__file__).with_name("tokenizers_golden.json")
LINES = (ROOT / "data/kjv.txt").read_text().splitlines()[:4000]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN3_5 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+")
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
]
SPECIAL = ["<s>", "</s>", "<|im_end|>"]


def split(*patterns):
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def byte_bpe(pre_tokenizer, normalizer=None, vocab_size=440):
    made = Tokenizer(models.BPE())
    if normalizer:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizer
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(LINES, trainer)
    made.add_tokens([AddedToken("CamelCase", single_word=True), AddedToken("God", normalized=True)])
    made.add_special_tokens([AddedToken("[MASK]", lstrip=True, rstrip=True)])
    return made


def with_pattern(made, *patterns):
    """The same vocabulary with other split patterns."""
    value = json.loads(made.to_str())
    value["pre_tokenizer"] = json.loads(byte_pre_tokenizer(split(*patterns)))
    return value


def byte_pre_tokenizer(pre_tokenizer):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizer
    return json.dumps(json.loads(made.to_str())["pre_tokenizer"])


def metaspace_bpe():
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=440,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)],
        show_progress=False,
        limit_alphabet=80,
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made.train_from_iterator(LINES, trainer)
    value = json.loads(made.to_str())
    value["pre_tokenizer"] = None
    value["added_tokens"] = value["added_tokens"][:3]
    return value


def unigram():
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    made.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(
        vocab_size=220, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(LINES[:1500], trainer)
    value = json.loads(made.to_str())
    value["normalizer"]["normalizers"].insert(0, {"type": "Precompiled", "precompiled_charsmap": CHAR_MAP})
    value["model"]["vocab"] = [[text, round(score, 4)] for text, score in value["model"]["vocab"]]
    return value


def word_piece():
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=260, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
    )
    made.train_from_iterator(LINES, trainer)
    return json.loads(made.to_str())


def part(**parts):
    """A tokenizer whose tokens show what a part makes of a text: the pieces, or the bytes."""
    value = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None}
    value.update(parts)
    if parts.get("pre_tokenizer") is not None:
        value["model"] = {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}
    else:
        vocabulary = {f"<0x{b:02X}>": b for b in range(256)}
        value["model"] = {"type": "BPE", "vocab": vocabulary, "merges": [], "byte_fallback": True}
    return value


def parts():
    normalizer = lambda name, **options: (name + str(options or ""), part(normalizer={"type": name, **options}))
    splitter = lambda name, **options: (name + str(options or ""), part(pre_tokenizer={"type": name, **options}))
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"):
        yield normalizer(name)
    yield normalizer("Strip", strip_left=True, strip_right=True)
    yield normalizer("Strip", strip_left=True, strip_right=False)
    yield normalizer("Strip", strip_left=False, strip_right=True)
    yield normalizer("Replace", pattern={"String": " "}, content="▁▁")
    yield normalizer("Replace", pattern={"Regex": r"\s+|\p{Lu}"}, content="")
    yield normalizer("Prepend", prepend="▁é")
    yield normalizer("Precompiled", precompiled_charsmap=CHAR_MAP)
    for flags in range(8):
        yield normalizer("BertNormalizer", clean_text=bool(flags & 1), handle_chinese_chars=bool(flags & 2),
                         strip_accents=bool(flags & 4) if flags < 6 else None, lowercase=flags > 3)
    for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"):
        yield splitter(name)
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        yield splitter("Punctuation", behavior=behavior)
        yield splitter("Split", pattern={"Regex": r"\s|\p{L}a?"}, behavior=behavior, invert=False)
        yield splitter("Split", pattern={"String": "e"}, behavior=behavior, invert=True)
    yield splitter("Split", pattern={"Regex": r"(?=\p{Lu})|x*"}, behavior="Isolated", invert=False)
    yield splitter("Digits", individual_digits=True)
    yield splitter("Digits", individual_digits=False)
    yield splitter("CharDelimiterSplit", delimiter="e")
    yield splitter("FixedLength", length=3)
    yield splitter("ByteLevel", add_prefix_space=True, trim_offsets=False, use_regex=True)
    for scheme in ("first", "always", "never"):
        yield splitter("Metaspace", replacement="▁", prepend_scheme=scheme, split=scheme != "never")
    for decoder in (
        {"type": "BPEDecoder", "suffix": "</w>"},
        {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "Sequence", "decoders": [{"type": "Strip", "content": "e", "start": 1, "stop": 0},
                                         {"type": "Replace", "pattern": {"Regex": "[aeiou]"}, "content": "*"},
                                         {"type": "Fuse"}]},
    ):
        vocabulary = {text: id for id, text in enumerate(
            ["?", "the", "##ing", "a</w>", "<pad>", "|", "e", "ee", "eae", ".", "do", "not", "n't"])}
        yield decoder["type"], {**part(), "decoder": decoder, "pre_tokenizer": {"type": "WhitespaceSplit"},
                                "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "?"}}


def texts_for(seed, n, special=()):
    rng = random.Random(seed)
    return ["", " ", "the ##ing a</w> <pad> <pad> | e ee eae . do not n't"] + [random_text(rng, special) for _ in range(n)]


def rounded(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main():
    assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
    base = byte_bpe(pre_tokenizers.ByteLevel(add_prefix_space=False))
    whole = json.loads(base.to_str())
    whole["model"]["ignore_merges"] = True
    shared = json.loads(base.to_str())["model"]
    named = [
        ("byte_bpe gpt2", json.loads(base.to_str())),
        ("byte_bpe llama3, whole words", {**whole, "pre_tokenizer": json.loads(byte_pre_tokenizer(split(LLAMA3)))}),
        ("byte_bpe qwen2 with NFC", {**with_pattern(base, QWEN2), "normalizer": {"type": "NFC"}}),
        ("byte_bpe qwen3.5", with_pattern(base, QWEN3_5)),
        ("byte_bpe o200k", with_pattern(base, O200K)),
        ("byte_bpe tekken", with_pattern(base, TEKKEN)),
        ("byte_bpe deepseek", with_pattern(base, *DEEPSEEK)),
        ("byte_bpe digits", {**json.loads(base.to_str()), "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}]}}),
        ("byte_bpe regex", with_pattern(base, r"\p{L}+|\P{L}")),
        ("metaspace_bpe", metaspace_bpe()),
        ("unigram", unigram()),
        ("word_piece", word_piece()),
    ]
    models_once = {"byte_bpe": shared, "bytes": part()["model"]}
    cases = []
    for number, (name, value) in enumerate([*named, *parts()]):
        special = [token["content"] for token in value["added_tokens"]]
        n = 20 if number < len(named) else 5
        texts = texts_for(number, n, special)
        if name == "byte_bpe gpt2":
            texts += WORDS
        made = load(value)
        answers = [answer(made, text) for text in texts]
        value = {key: item for key, item in value.items() if item not in (None, [])}
        for name_of_model, model in models_once.items():
            if value["model"] == model:
                value["model"] = name_of_model
        cases.append({"name": name, "tokenizer": value, "texts": texts,
                      "ids": [ids for ids, _, _ in answers],
                      "ranges": [[end for pair in ranges for end in pair] for _, ranges, _ in answers],
                      "decoded": [decoded for _, _, decoded in answers]})
    lines = [rounded(case) for case in cases]
    OUT.write_text('{"models":' + rounded(models_once) + ',\n"cases":[\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")
    print(f"{OUT}: {OUT.stat().st_size} bytes, {sum(len(c['texts']) for c in cases)} texts, {len(cases)} tokenizers")


if __name__ == "__main__":
    main()
