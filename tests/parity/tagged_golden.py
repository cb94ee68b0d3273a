# SPDX-License-Identifier: Apache-2.0
"""Writes tagged_golden.json: texts and answers of model families' chat templates, by transformers.

    python3 tests/parity/tagged_golden.py   # with transformers 5.5.4 and trl 1.16.0

The families' own templates are those that TRL stores. For each chat: the text, the range of the
last answer as the rest after the prompt for it, and the mask of the tagged template.
"""

import importlib.resources
import itertools
import json
import pathlib

import chat_cases

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TAGGED = ROOT / "host/chat/templates"
FAMILIES = {
    "qwen3": "qwen3",
    "qwen3_5": "qwen3_5_think",
    "qwen3_6": "qwen3_6",
    "gpt_oss": "gptoss",
    "phi3": "phi3",
    "phi3_5": "phi3_5",
    "gemma": "gemma",
    "deepseek_v3": "deepseekv3",
}
# Their own text is compared too, so it is kept here.
OWN = ("qwen3", "phi3", "gemma", "deepseek_v3")
CALL = [{"type": "function", "function": {"name": "f", "arguments": {"a": 1, "b": "x"}}}]
TEXT_CALL = [{"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]
TOOLS = [
    {
        "type": "function",
        "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
    }
]


def user(content):
    return {"role": "user", "content": content}


def said(content, **more):
    return {"role": "assistant", "content": content, **more}


RESULT = {"role": "tool", "name": "f", "content": "yes"}
CHATS = [
    [user("Hi"), said("Hello.")],
    [user("Hi"), said("Hello."), user("Bye"), said("Good</think>bye.")],
    [{"role": "system", "content": "S"}, user("Hi"), said(" a "), user("b"), said("c")],
    [
        user("Hi"),
        said("<think>\nEasy.\n</think>\n\nHello."),
        user("Bye"),
        said("<think>\nMore.\n</think>\n\nGoodbye."),
    ],
    [user("2"), said("4", reasoning_content="R"), user("3"), said("6", reasoning_content="S")],
    [user("2"), said("4", thinking="R"), user("3"), said("6", thinking="S")],
    [user("Hi"), said("", tool_calls=CALL), RESULT, said("Found."), user("ok"), said("Bye")],
    [user("Hi"), said("x", tool_calls=TEXT_CALL), RESULT, said("Found.")],
    [user("Hi"), said("Hello."), user("Bye")],
]


def bytes_before(text, place):
    return len(text[:place].encode())


def last_answer(tokenizer, case):
    """The text after what the prompt and the finished chat have in common, in whole marks."""
    messages = case["messages"]
    last = max(i for i, message in enumerate(messages) if message["role"] == "assistant")
    if last + 1 != len(messages):
        return None
    whole = chat_cases.text_of(tokenizer, case)
    before = chat_cases.text_of(tokenizer, case, messages[:last], True)
    common = len(
        list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(whole, before)))
    )
    if common < len(before):
        mark = "<｜Assistant｜>"
        if mark not in whole[:common]:
            print(repr(before), repr(whole))
            return None
        common = whole.rindex(mark, 0, common) + len(mark)
    return [bytes_before(whole, common), len(whole.encode())]


def served(family, messages):
    """The messages as programs that serve models pass them: arguments that the template writes as
    JSON are objects, also where a chat has JSON text. transformers puts such text in quotes."""
    messages = json.loads(json.dumps(messages))
    for call in (call for m in messages for call in m.get("tool_calls", [])):
        arguments = call["function"]["arguments"]
        if family == "gpt_oss" and isinstance(arguments, str):
            call["function"]["arguments"] = json.loads(arguments)
    return messages


def main():
    stored = importlib.resources.files("trl") / "chat_templates"
    golden = []
    own_texts = {}
    for name, file in FAMILIES.items():
        text = (stored / f"{file}.jinja").read_text()
        own = chat_cases.byte_tokenizer(text)
        tagged = chat_cases.byte_tokenizer((TAGGED / f"{name}.jinja").read_text())
        if name in OWN:
            own_texts[name] = text
        for i, messages in enumerate(CHATS):
            case = {"name": str(i), "messages": served(name, messages), "tools": TOOLS}
            try:
                rendered = chat_cases.text_of(own, case)
            except Exception:  # noqa: BLE001: what a template raises has many types
                continue
            assert rendered == chat_cases.text_of(tagged, case), (name, i)
            golden.append(
                {
                    "family": name,
                    "chat": i,
                    "text": rendered if name != "gpt_oss" else None,  # it has the date
                    "last": last_answer(own, case),
                    "tagged": chat_cases.joined(chat_cases.tagged_answers(tagged, case)),
                }
            )
    out = {
        "specials": chat_cases.SPECIALS,
        "tools": TOOLS,
        "chats": CHATS,
        "own": own_texts,
        "golden": golden,
    }
    (ROOT / "tests/parity/tagged_golden.json").write_text(
        json.dumps(out, ensure_ascii=False, indent=1) + "\n"
    )
    print(len(golden), "renderings")


if __name__ == "__main__":
    main()
