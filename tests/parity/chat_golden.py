# SPDX-License-Identifier: Apache-2.0
"""Writes chat_golden.json: what transformers makes of the templates in tests/support/chat_templates.

    python3 tests/parity/chat_golden.py   # with transformers 5.5.4
"""

import json
import pathlib

import chat_cases

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    cases = []
    for path in sorted((ROOT / "support/chat_templates").glob("*.jinja")):
        template = path.read_text()
        tokenizer = chat_cases.byte_tokenizer(template)
        for case in chat_cases.CASES:
            golden = {"template": path.name, "case": case["name"]}
            try:
                golden["text"] = chat_cases.text_of(tokenizer, case)
                if chat_cases.is_tagged(template):
                    golden["answers"] = chat_cases.tagged_answers(tokenizer, case)
                else:
                    golden["answers"] = chat_cases.gained_answers(tokenizer, case)
            except Exception as error:  # noqa: BLE001: what a template raises has many types
                golden["error"] = type(error).__name__
                golden.pop("text", None)
            cases.append(golden)
    chats = {
        case["name"]: {key: value for key, value in case.items() if key != "name"}
        for case in chat_cases.CASES
    }
    out = {"specials": chat_cases.SPECIALS, "chats": chats, "golden": cases}
    (ROOT / "parity/chat_golden.json").write_text(
        json.dumps(out, ensure_ascii=False, indent=1) + "\n"
    )
    print(len(cases), "renderings,", sum("error" in case for case in cases), "errors")


if __name__ == "__main__":
    main()
