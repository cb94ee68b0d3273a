// SPDX-License-Identifier: Apache-2.0
//
// A hook in Rust that reads the run: it records a moving average of the loss after each step,
//
//     average = decay * average + (1 - decay) * loss
//
// as the metric `my_plugin/loss`. Checkpoints store the average, so that a resumed run continues it.
use tenon::abi::{TENON_EVENT_AFTER_OPTIMIZER_STEP, TENON_STATE_REPLICATED, TENON_TOUCH_LOSS};
use tenon::{
    Component, Context, Event, Hook, HookInfo, Result, StateReader, StateWriter, Stateful,
};

struct MyPlugin {
    decay: f64,
    average: f64,
    num_steps: i64, // steps in `average`; 0: none yet
}

impl Component for MyPlugin {
    const TYPE: &'static str = "my_plugin";
    const SUMMARY: &'static str = "Records a moving average of the loss";
    const OPTIONS: &'static str = r#"{
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "decay": {
                "type": "number",
                "minimum": 0,
                "exclusiveMaximum": 1,
                "default": 0.98,
                "description": "weight of the previous average"
            }
        }
    }"#;

    /// The host has validated the options against the schema and filled in the defaults.
    fn create(context: &Context) -> Result<Self> {
        let decay = context.options.double("/decay")?;
        Ok(MyPlugin { decay, average: 0.0, num_steps: 0 })
    }
}

impl Hook for MyPlugin {
    /// Rank 0 has the loss of all ranks.
    fn describe(&self) -> HookInfo {
        HookInfo::on(&[TENON_EVENT_AFTER_OPTIMIZER_STEP]).reads(TENON_TOUCH_LOSS).rank_0_only()
    }

    fn on_event(&mut self, event: &Event) -> Result<()> {
        let loss = match event.step_loss()? {
            Some(loss) => loss,
            None => return Ok(()), // it is non-finite: the average ignores this step
        };
        self.average = if self.num_steps == 0 {
            loss
        } else {
            self.decay * self.average + (1.0 - self.decay) * loss
        };
        self.num_steps += 1;
        event.add_metric("my_plugin/loss", self.average)
    }
}

impl Stateful for MyPlugin {
    const VERSION: u32 = 1;

    fn save(&self, state: &mut StateWriter) -> Result<()> {
        state.put_double("average", self.average, TENON_STATE_REPLICATED)?;
        state.put_int("num_steps", self.num_steps, TENON_STATE_REPLICATED)
    }

    fn load(&mut self, state: &StateReader) -> Result<()> {
        self.average = state.double("average")?;
        self.num_steps = state.int("num_steps")?;
        Ok(())
    }
}

tenon::plugin!(tenon::hook::<MyPlugin>().stateful());
