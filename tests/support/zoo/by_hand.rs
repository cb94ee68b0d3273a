// SPDX-License-Identifier: Apache-2.0
//
// A plugin in Rust that rustc alone builds, without CMake and a C compiler's options: a learning
// rate that halves every 100 steps.
use tenon::{Component, Context, LrScheduler, Result};

tenon::manifest!(
    "id=org.tenon.zoo.by_hand_rust",
    "version=1.0.0",
    "component=lr_scheduler:halving",
);

struct Halving;

impl Component for Halving {
    const TYPE: &'static str = "halving";
    const SUMMARY: &'static str = "halves the learning rate every 100 steps";

    fn create(_: &Context) -> Result<Self> {
        Ok(Halving)
    }
}

impl LrScheduler for Halving {
    /// A pure function of the step: a resumed run asks for any step.
    fn factor(&mut self, step: u64, _total: u64) -> Result<f64> {
        Ok(0.5f64.powf(step as f64 / 100.0))
    }
}

tenon::plugin!(tenon::lr_scheduler::<Halving>());
