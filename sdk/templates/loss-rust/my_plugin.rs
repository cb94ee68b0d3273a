// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy in Rust, with a hand-written gradient:
//
//     sum over labels other than -100 of  log(sum_v exp(logits[v])) - logits[label]
//
// Shapes   logits [..., V] f32, labels [...] i64
use tenon::abi::{TENON_ADDITIVE_TOKENS, TENON_F32, TENON_I64};
use tenon::{Component, Context, Error, Exec, Inputs, Loss, LossInfo, Result, Tensor};

const IGNORED: i64 = -100;

struct MyPlugin;

/// The inputs of one call, borrowed.
struct Batch<'a> {
    logits: &'a [f32], // [labels.len(), num_classes]
    labels: &'a [i64],
    num_classes: usize,
}

impl<'a> Batch<'a> {
    fn new(inputs: &Inputs<'a>) -> Result<Self> {
        let logits_tensor = inputs.get(0)?;
        let logits = logits_tensor.elements::<f32>()?;
        let labels = inputs.get(1)?.elements::<i64>()?;
        let num_classes = logits_tensor.shape().last().map_or(0, |size| *size as usize);
        if num_classes == 0 || labels.len() * num_classes != logits.len() {
            return Err(Error::invalid(
                "my_plugin.input",
                "logits must have one row of classes for each label",
            ));
        }
        let is_label = |label: &i64| (0..num_classes as i64).contains(label) || *label == IGNORED;
        if !labels.iter().all(is_label) {
            return Err(Error::invalid(
                "my_plugin.input",
                "a label is neither a class index nor -100",
            ));
        }
        Ok(Batch { logits, labels, num_classes })
    }

    /// Each label with its row of logits.
    fn rows(&self) -> impl Iterator<Item = (i64, &'a [f32])> {
        let labels = self.labels.iter().copied();
        labels.zip(self.logits.chunks_exact(self.num_classes))
    }
}

/// Computes the logarithm of the sum of exponentials of a row, without overflow.
fn log_sum_exp(row: &[f32]) -> f64 {
    let largest = row.iter().fold(f64::NEG_INFINITY, |most, x| most.max(f64::from(*x)));
    let sum: f64 = row.iter().map(|x| (f64::from(*x) - largest).exp()).sum();
    largest + sum.ln()
}

impl Component for MyPlugin {
    const TYPE: &'static str = "my_plugin";
    const SUMMARY: &'static str = "Softmax cross-entropy in Rust";

    fn create(_: &Context) -> Result<Self> {
        Ok(MyPlugin)
    }
}

impl Loss for MyPlugin {
    fn describe(&self) -> LossInfo {
        LossInfo::new()
            .port("logits", TENON_F32)
            .port("labels", TENON_I64)
            .additive_over(TENON_ADDITIVE_TOKENS)
            .count_from_batch()
    }

    fn count(&mut self, _: &Exec, inputs: &Inputs) -> Result<f64> {
        let labels = inputs.get(1)?.elements::<i64>()?;
        Ok(labels.iter().filter(|label| **label != IGNORED).count() as f64)
    }

    fn compute(&mut self, _: &Exec, inputs: &Inputs) -> Result<f64> {
        let batch = Batch::new(inputs)?;
        let counted = batch.rows().filter(|(label, _)| *label != IGNORED);
        Ok(counted.map(|(label, row)| log_sum_exp(row) - f64::from(row[label as usize])).sum())
    }

    /// Computes, for each row, softmax(logits) minus 1 at the label, times `grad_sum`.
    fn backward(
        &mut self,
        exec: &Exec,
        inputs: &Inputs,
        grad_sum: f64,
    ) -> Result<Vec<Option<Tensor>>> {
        let batch = Batch::new(inputs)?;
        let mut grad = Tensor::zeros::<f32>(exec, inputs.get(0)?.shape())?;
        let rows_of_grad = grad.elements_mut::<f32>()?.chunks_exact_mut(batch.num_classes);
        for (out, (label, row)) in rows_of_grad.zip(batch.rows()) {
            if label == IGNORED {
                continue;
            }
            let total = log_sum_exp(row);
            for (v, (out, x)) in out.iter_mut().zip(row).enumerate() {
                let target = if v as i64 == label { 1.0 } else { 0.0 };
                *out = (grad_sum * ((f64::from(*x) - total).exp() - target)) as f32;
            }
        }
        Ok(vec![Some(grad), None])
    }
}

tenon::plugin!(tenon::loss::<MyPlugin>());
