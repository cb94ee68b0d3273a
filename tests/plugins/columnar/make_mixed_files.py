#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Writes mixed/*, files whose columns have one name and different types; columnar_types_test.cpp
# reads them. It needs pyarrow, the test does not. golden.json has the values by
# pyarrow.dataset with a unified schema, or by Python's exact numbers.
import datetime as dt
import decimal
import json
import os

import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mixed")
os.makedirs(folder, exist_ok=True)
golden = {}


def put(name, **columns):
    table = pa.table({k: v if isinstance(v, pa.Array) else pa.array(v) for k, v in columns.items()})
    path = os.path.join(folder, name)
    if name.endswith(".parquet"):
        pa.parquet.write_table(table, path, compression="none", write_statistics=True)
    elif name.endswith(".feather"):
        pa.feather.write_feather(table, path, compression="uncompressed")
    else:
        with pa.OSFile(path, "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
            for batch in table.to_batches(max_chunksize=2):
                writer.write_batch(batch)
    return path


# The same instants in four units; the zone does not change an instant.
instants = [dt.datetime(2026, 1, 1, 12, 0, 0), dt.datetime(1960, 1, 1, 0, 0, 1)]
times = [
    put("time-s.parquet", ts=pa.array(instants, pa.timestamp("s"))),
    put("time-ms.parquet", ts=pa.array(instants, pa.timestamp("ms"))),
    put("time-us.parquet", ts=pa.array(instants, pa.timestamp("us"))),
    put("time-ns.parquet", ts=pa.array(instants, pa.timestamp("ns"))),
]
for unit in ("s", "ms", "us", "ns"):
    schema = pa.schema([("ts", pa.timestamp(unit))])
    read = pa.dataset.dataset(times, schema=schema).to_table().column("ts")
    golden["ts_" + unit] = read.cast(pa.int64()).to_pylist()
put("time-lists.feather", ts=pa.array([instants, [], [instants[1]]], pa.list_(pa.timestamp("ns"))))
put("time-lists-ms.feather", ts=pa.array([instants, [], [instants[1]]], pa.list_(pa.timestamp("ms"))))
put("time-fraction.parquet", ts=pa.array([1_500_001], pa.timestamp("us")))
put("time-zone.parquet", ts=pa.array(instants, pa.timestamp("us", "Europe/Berlin")))
put("date.parquet", ts=pa.array([dt.date(2026, 1, 1), dt.date(1960, 1, 1)], pa.date32()))
put("date64.parquet", ts=pa.array([dt.date(2026, 1, 1), dt.date(1960, 1, 1)], pa.date64()))
put("time-int.parquet", ts=pa.array([20454, 20454], pa.int64()))
put("time-bool.parquet", ts=pa.array([True, False]))

# Numbers under one name.
put("int.parquet", c=pa.array([1, 2], pa.int64()))
put("double.parquet", c=pa.array([1.0, None], pa.float64()))
put("half.feather", c=pa.array([7.0, 3.0], pa.float16()))
put("fraction.parquet", c=pa.array([1.5, 2.0], pa.float64()))
put("rounded.parquet", c=pa.array([float(2**53), 1.0], pa.float64()))
put("bool.parquet", c=pa.array([True, False]))
put("unsigned.parquet", c=pa.array([2**63 + 1, 2**64 - 1, 5, 2**60 + 1, 2**60 + 2], pa.uint64()))
put("negative.parquet", c=pa.array([-5], pa.int64()))
put("big.parquet", c=pa.array([2**60, 2**60 + 1, 2**60 + 2], pa.int64()))
put("null.parquet", c=pa.nulls(2))
put("text.parquet", c=pa.array(["a", "b"]))
put("list.parquet", c=pa.array([[1, 2], [3]], pa.list_(pa.int64())))
put("list-null.feather", c=pa.array([[], [None]], pa.list_(pa.null())))
put("nan.parquet", c=pa.array([1.0, float("nan"), 3.0], pa.float64()))
put("object.parquet", c=pa.array([], pa.null()))
D = decimal.Decimal
put("decimal.parquet", c=pa.array([D("1.50"), D("-2.25"), D("0.1")], pa.decimal128(10, 2)))
put("decimal-whole.parquet", c=pa.array([D(5), D(2**60 + 1)], pa.decimal128(38, 0)))
put("decimal-big.parquet", c=pa.array([D(2**70)], pa.decimal256(50, 0)))

# Layouts.
put("views.feather",
    c=pa.array(["a", "a longer text than twelve bytes", None], pa.string_view()),
    d=pa.array([b"ab", b"cd", b"ef"], pa.binary(2)),
    e=pa.array([[1], [2, 3], []], pa.list_view(pa.int64())),
    f=pa.RunEndEncodedArray.from_arrays([2, 3], [7, 8]),
    g=pa.array(["x", "y", "x"]).dictionary_encode())
put("words.feather",
    c=pa.array([1, 2, 3, 4]),
    view=pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None], pa.int8()),
                                        pa.array(["ab", "longer than twelve bytes"], pa.string_view())),
    fixed=pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None], pa.int32()),
                                         pa.array([b"ab", b"cd"], pa.binary(2))),
    runs=pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 2, 3, 4], pa.int32()),
        pa.array(["ab", "longer than twelve bytes", "ab", None], pa.string_view())))
put("fixed-null.feather", v=pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)))
# Maps, and lists with the same keys and weights.
keys = [[1, 2], [3], [4], []]
weights = [[0.5, None], [float("nan")], [2.0], []]
pairs = [list(zip(k, w)) for k, w in zip(keys, weights)]
put("map-weights.feather",
    m=pa.array(pairs, pa.map_(pa.int64(), pa.float32())),
    d=pa.array(pairs, pa.map_(pa.int64(), pa.float64())),
    k=pa.array(keys, pa.list_(pa.int64())),
    w=pa.array(weights, pa.list_(pa.float32())))
put("stream.arrow", c=[1, 2, 3, 4, 5], d=["a", "b", "c", "d", "e"])
events = [[{"item": 1, "w": 0.5}], None, [{"item": 2, "w": 0.25}, {"item": 3, "w": 0.75}]]
user = [{"id": 5, "at": {"city": "a"}}, {"id": 6, "at": None}, None]
for ending in ("parquet", "feather"):
    put("struct." + ending, user=pa.array(user), ev=pa.array(events))
    # All structs are null, so their fields have no types.
    put("struct-null." + ending,
        user=pa.nulls(3),
        ev=pa.array([[], None, []], pa.list_(pa.null())))
# Views of lists of structs, in another order than their entries.
entries = pa.array([{"item": i, "w": i / 4} for i in range(1, 4)])
put("struct-views.feather",
    ev=pa.ListViewArray.from_arrays([1, 0, 0], [2, 0, 1], entries),
    large=pa.LargeListViewArray.from_arrays([1, 0, 0], [2, 0, 1], entries))

# Columns and fields of one name. write_feather() refuses such columns.
field = pa.array([1, 2, 3])
twice = pa.StructArray.from_arrays([field, field, pa.array([4, 5, 6])], ["a", "a", "b"])
once = pa.StructArray.from_arrays([field], ["a"])
inner = pa.StructArray.from_arrays([once, once], ["x", "x"])
table = pa.Table.from_arrays([twice, once, once, once, field, inner], ["s", "t", "t", "u", "u", "v"])
with pa.OSFile(os.path.join(folder, "equal-names.feather"), "wb") as out:
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)

with open(os.path.join(folder, "golden.json"), "w") as out:
    json.dump(golden, out)
    out.write("\n")
