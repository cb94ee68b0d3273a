# SPDX-License-Identifier: Apache-2.0
#
# Writes chats as another program does: Parquet files, and JSON lines with the same samples. The
# dataset `chat` must make the same rows of both. Also writes files that it must reject. Needs
# pyarrow (21.0 wrote those in chats_of_pyarrow).
#
# usage: chats_of_pyarrow.py FOLDER
import json
import pathlib
import sys

import pyarrow
import pyarrow.parquet

folder = pathlib.Path(sys.argv[1])


def turns(*pairs):
    return [{"role": role, "content": content} for role, content in pairs]


ARGUMENTS = {"type": "function", "function": {"name": "sum", "arguments": {"values": [1.5, 2.5], "exact": True}}}
MESSAGES = [
    {"messages": turns(("user", "hi"), ("assistant", "yo"))},
    {"messages": turns(("system", "Be brief."), ("user", "Grüße 🙂"), ("assistant", "ü\n\t\"q\"")), "id": 7},
    {
        "messages": [
            {"role": "user", "content": "add"},
            {"role": "assistant", "content": "", "tool_calls": [ARGUMENTS]},
            {"role": "tool", "content": "3.5"},
            {"role": "assistant", "content": "It is 3.5."},
        ],
        "tools": json.dumps([{"name": "sum", "parameters": {"values": "list"}}]),
    },
    {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "train": False}]
        + turns(("user", "z"), ("assistant", "w"))},
    {"messages": turns(("user", "style"), ("assistant", "ok")), "chat_template_kwargs": {"style": "short", "level": 3}},
]
SHAREGPT = [
    {"system": "S", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]},
    {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, {"from": "observation", "value": "c"},
                       {"from": "gpt", "value": "d"}]},
]
ALPACA = [
    {"instruction": "do", "input": "x", "output": "y"},
    {"instruction": "say", "output": "z", "system": "S", "history": [["a", "b"], ["c", "d"]]},
]
COMPLETION = [{"prompt": "2+2=", "completion": "4"}, {"prompt": "ä", "completion": "ö"}]
PREFERENCE = [
    {"prompt": turns(("user", "q")), "chosen": turns(("assistant", "yes")), "rejected": turns(("assistant", "no"))},
    {"prompt": turns(("system", "S"), ("user", "q")), "chosen": turns(("assistant", "a")), "rejected": turns(("assistant", "b"))},
]


def write(name, table, **options):
    options = {"compression": "zstd", "row_group_size": 2, "write_page_checksum": True, **options}
    pyarrow.parquet.write_table(table, folder / (name + ".parquet"), **options)


def write_pair(name, samples, **options):
    (folder / (name + ".jsonl")).write_text(
        "".join(json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples)
    )
    write(name, pyarrow.Table.from_pylist(samples, pyarrow.schema(list(type_of(samples)))), **options)


# The type of all values, with the keys of objects in the order of the JSON. pyarrow would sort them.
def type_of(values):
    values = [value for value in values if value is not None]
    if isinstance(values[0], dict):
        keys = dict.fromkeys(key for value in values for key in value)
        return pyarrow.struct([(key, type_of([value.get(key) for value in values])) for key in keys])
    if isinstance(values[0], list):
        return pyarrow.list_(type_of([element for value in values for element in value]))
    return pyarrow.scalar(values[0]).type


folder.mkdir(exist_ok=True)
write_pair("messages", MESSAGES)
write_pair("sharegpt", SHAREGPT, data_page_version="2.0")
write_pair("alpaca", ALPACA, use_dictionary=False)
write_pair("completion", COMPLETION, compression="none")
write_pair("preference", PREFERENCE, row_group_size=1)

# The types that other programs choose for the same values.
text = pyarrow.large_string()
words = pyarrow.array(["user", "assistant"]).dictionary_encode()
message = pyarrow.StructArray.from_arrays(
    [words, pyarrow.array(["hi", "yo"], text)], names=["role", "content"]
)
write(
    "types",
    pyarrow.table(
        {
            "messages": pyarrow.LargeListArray.from_arrays(pyarrow.array([0, 2], pyarrow.int64()), message),
            "chat_template_kwargs": pyarrow.array([[("level", "3")]], pyarrow.map_(pyarrow.string(), pyarrow.string())),
            "when": pyarrow.array([0], pyarrow.timestamp("us")),
        }
    ),
)

# Bad files: the second row group has the bad row.
good = {"messages": turns(("user", "q"), ("assistant", "a"))}
write("null_messages", pyarrow.Table.from_pylist([good, good, good, {"messages": None}]))
write("null_message", pyarrow.Table.from_pylist([good, good, {"messages": [None]}]))
write("number_messages", pyarrow.table({"messages": [1, 2, 3]}))
write("unknown_role", pyarrow.Table.from_pylist([good, good, good, {"messages": turns(("narrator", "q"))}]))
write("no_column", pyarrow.table({"text": ["x"], "id": [1]}))
write("timestamp", pyarrow.table({"messages": pyarrow.array([0], pyarrow.timestamp("us"))}))
write("empty", pyarrow.table({"prompt": pyarrow.array([], text), "completion": pyarrow.array([], text)}))
write(
    "not_utf8",
    pyarrow.table({"prompt": pyarrow.array([b"a", b"\xff"]), "completion": pyarrow.array([b"b", b"c"])}),
)
