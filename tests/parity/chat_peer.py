# SPDX-License-Identifier: Apache-2.0
"""Compares the chat templates of a folder, such as chat_templates/ of TRL, with transformers.

    python3 tests/parity/chat_peer.py build/tests/chat_render FOLDER [-v]

It needs transformers 5.5.4. For each template it prints how many of the conversations in
chat_cases.py render to the same bytes, and how many masks are equal.
"""

import json
import pathlib
import subprocess
import sys

import chat_cases


class Renderer:
    def __init__(self, program):
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, template, case, find_answers):
        request = {
            "template": template,
            "messages": case["messages"],
            "tools": case.get("tools"),
            "variables": chat_cases.variables_of(case),
            "add_generation_prompt": case.get("add_generation_prompt", False),
            "find_answers": find_answers,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def main():
    program, folder, *rest = sys.argv[1:]
    is_verbose = "-v" in rest
    render = Renderer(program)
    totals = {"templates": 0, "texts": 0, "masks": 0, "tagged": 0, "tagged masks": 0}
    texts = masks = both_fail = num_cases = 0
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        template = path.read_text()
        tokenizer = chat_cases.byte_tokenizer(template)
        is_tagged = chat_cases.is_tagged(template)
        problems = []
        for case in chat_cases.CASES:
            num_cases += 1
            try:
                text = chat_cases.text_of(tokenizer, case)
            except Exception as error:  # noqa: BLE001
                text = None
                reason = f"{type(error).__name__}: {error}"
            ours = render(template, case, False)
            if text is None:
                if "error" in ours:
                    both_fail += 1
                else:
                    problems.append((case["name"], "text", f"transformers fails: {reason}"))
                continue
            if ours.get("text") != text:
                why = ours.get("error") or difference(text, ours["text"])
                problems.append((case["name"], "text", why))
                continue
            texts += 1
            try:
                answers = (
                    chat_cases.tagged_answers(tokenizer, case)
                    if is_tagged
                    else chat_cases.gained_answers(tokenizer, case)
                )
            except Exception:  # noqa: BLE001
                answers = None  # a prefix that the template does not take
            ours = render(template, case, True)
            found = None
            if "error" not in ours:
                found = chat_cases.joined([[begin, end] for begin, end, _ in ours["answers"]])
            if found == (None if answers is None else chat_cases.joined(answers)):
                masks += 1
            else:
                what = ours.get("error") or f"{found} instead of {answers}"
                problems.append((case["name"], "mask", what))
        totals["templates"] += 1
        totals["texts"] += not any(kind == "text" for _, kind, _ in problems)
        totals["masks"] += not problems
        totals["tagged"] += is_tagged
        totals["tagged masks"] += is_tagged and not problems
        if problems:
            print(path.name)
            for name, kind, what in problems if is_verbose else problems[:1]:
                print(f"    {name}: {kind}: {what}")
    print(f"{num_cases} renderings: {texts} texts and {masks} masks equal, {both_fail} fail in both")
    print(totals)


def difference(expected, found):
    at = next((i for i, (a, b) in enumerate(zip(expected, found)) if a != b), min(len(expected), len(found)))
    return f"at {at}: {found[max(at - 20, 0):at + 40]!r} instead of {expected[max(at - 20, 0):at + 40]!r}"


if __name__ == "__main__":
    main()
