# SPDX-License-Identifier: Apache-2.0
#
# Makes files of rows with other types of numbers than Tenon writes: rows_f64_i32.parquet (lists of
# f64 and ids of i32, as pandas and NumPy write them), rows_f16_u32.parquet and rows_nan.parquet.
#
# usage: rows_of_numpy.py FOLDER
import sys

import numpy
import pyarrow
import pyarrow.parquet

folder = sys.argv[1]


def write(name, ids, vectors):
    table = pyarrow.table({"id": ids, "vector": vectors})
    pyarrow.parquet.write_table(table, f"{folder}/{name}", compression="none", store_schema=False)


numbers = [[0.1, -2.5, 3.0], [4.0, 5.0, 1e-3]]
write(
    "rows_f64_i32.parquet",
    pyarrow.array([7, -3], pyarrow.int32()),
    pyarrow.array(numbers, pyarrow.list_(pyarrow.float64())),
)
write(
    "rows_f16_u32.parquet",
    pyarrow.array([7, 2**32 - 3], pyarrow.uint32()),
    pyarrow.array([numpy.array(row, numpy.float16) for row in numbers], pyarrow.list_(pyarrow.float16())),
)
write(
    "rows_nan.parquet",
    pyarrow.array([7, 8], pyarrow.int64()),
    pyarrow.array([[1.0, 2.0, 3.0], [1.0, float("nan"), 3.0]], pyarrow.list_(pyarrow.float32())),
)
