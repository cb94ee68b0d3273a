// SPDX-License-Identifier: Apache-2.0
//
// The lines of a text file as samples for a language model: a byte is a token. Shorter lines are
// padded, longer ones are truncated.
//
// Map style: samples are numbered, and the host draws their order. The dataset has no position, so
// it has no state to save.
// Threads: reads share the text, which does not change.
use tenon::abi::{TENON_I64, TENON_INVALID, TENON_IO};
use tenon::{Batch, Component, Context, DatasetInfo, Error, Exec, Field, MapDataset, Result};

// The fields, in the order of `describe`.
const INPUT_IDS: usize = 0;
const LABELS: usize = 1;
const IGNORED: i64 = -100;

struct MyPlugin {
    path: String,
    max_length: usize,
    lines: Vec<Vec<u8>>, // with their line breaks, each of two bytes or more
}

impl Component for MyPlugin {
    const TYPE: &'static str = "my_plugin";
    const SUMMARY: &'static str = "lines of a text file, a token per byte";
    const OPTIONS: &'static str = r#"{
        "type": "object",
        "additionalProperties": false,
        "required": ["path"],
        "properties": {
            "path": {
                "type": "string",
                "minLength": 1,
                "x-tenon-path": true,
                "description": "text file"
            },
            "max_length": {
                "type": "integer",
                "minimum": 1,
                "maximum": 1048576,
                "default": 128,
                "description": "tokens per sample; longer lines are truncated"
            }
        }
    }"#;

    /// It does not open the file: the host creates an instance of each component once with default
    /// options, to try the plugin.
    fn create(context: &Context) -> Result<Self> {
        Ok(MyPlugin {
            path: context.options.string("/path")?,
            max_length: context.options.int("/max_length")? as usize,
            lines: Vec::new(),
        })
    }
}

impl MapDataset for MyPlugin {
    /// Reads the whole text. A file that changes during the run therefore has no effect.
    fn describe(&mut self) -> Result<DatasetInfo> {
        let text = std::fs::read(&self.path).map_err(|error| {
            let message = format!("cannot read {}: {}", self.path, error);
            Error::new(TENON_IO, "my_plugin.read", message)
        })?;
        let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.len() > 1);
        self.lines = lines.map(<[u8]>::to_vec).collect();
        if self.lines.is_empty() {
            let message = format!("{} has no line with text", self.path);
            return Err(Error::new(TENON_INVALID, "my_plugin.empty", message));
        }
        let length = self.max_length as i64;
        Ok(DatasetInfo::new(vec![
            Field::new("input_ids", TENON_I64).axis("T", length),
            Field::new("labels", TENON_I64).axis("T", length).pad(IGNORED as f64),
        ]))
    }

    fn size(&self) -> Result<i64> {
        Ok(self.lines.len() as i64)
    }

    /// The label of each byte is the byte after it. Labels of -100 are ignored.
    fn read(&self, _: &Exec, indices: &[i64], batch: &mut Batch) -> Result<()> {
        let shape = [indices.len() as i64, self.max_length as i64];
        let lines = || indices.iter().map(|index| &self.lines[*index as usize]);
        let num_tokens = |line: &Vec<u8>| self.max_length.min(line.len() - 1);

        let inputs = batch.add::<i64>(INPUT_IDS, &shape)?;
        for (row, line) in inputs.chunks_exact_mut(self.max_length).zip(lines()) {
            for (token, byte) in row.iter_mut().zip(&line[..num_tokens(line)]) {
                *token = i64::from(*byte);
            }
        }
        let labels = batch.add::<i64>(LABELS, &shape)?;
        labels.fill(IGNORED);
        for (row, line) in labels.chunks_exact_mut(self.max_length).zip(lines()) {
            for (label, byte) in row.iter_mut().zip(&line[1..=num_tokens(line)]) {
                *label = i64::from(*byte);
            }
        }
        let tokens: usize = lines().map(num_tokens).sum();
        batch.set_counts(shape[0], tokens as i64)
    }
}

tenon::plugin!(tenon::map_dataset::<MyPlugin>());
