// SPDX-License-Identifier: Apache-2.0
//
// A hook in Rust that panics, or returns an error, in one of its calls.
use tenon::abi::{TENON_EVENT_AFTER_STEP, TENON_IO};
use tenon::{
    Component, Context, Error, Event, Hook, HookInfo, Result, StateReader, StateWriter, Stateful,
};

struct RustPanics {
    at: String,
    how: String,
}

impl RustPanics {
    fn reach(&self, at: &str) -> Result<()> {
        if self.at != at {
            return Ok(());
        }
        match self.how.as_str() {
            "error" => {
                Err(Error::new(TENON_IO, "rust_panics.asked", "asked to fail\0, not to stop"))
            }
            "index" => {
                let numbers: Vec<u64> = Vec::new();
                let unused = numbers[at.len()];
                Err(Error::invalid("rust_panics.number", unused.to_string()))
            }
            "value" => std::panic::panic_any(7),
            _ => panic!("asked to panic at {}", at),
        }
    }
}

impl Component for RustPanics {
    const TYPE: &'static str = "rust_panics";
    const SUMMARY: &'static str = "for tests: panics in one of its calls";
    const OPTIONS: &'static str = r#"{
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "at": {
                "enum": ["", "create", "describe", "on_event", "snapshot", "destroy"],
                "default": "",
                "description": "the call"
            },
            "how": {
                "enum": ["text", "index", "value", "error"],
                "default": "text",
                "description": "text: a panic with a text; index: beyond a vector; value: with a number; error"
            }
        }
    }"#;

    fn create(context: &Context) -> Result<Self> {
        let made =
            RustPanics { at: context.options.string("/at")?, how: context.options.string("/how")? };
        made.reach("create")?;
        Ok(made)
    }
}

impl Hook for RustPanics {
    fn describe(&self) -> HookInfo {
        self.reach("describe").expect("describe has no other way to fail");
        HookInfo::on(&[TENON_EVENT_AFTER_STEP])
    }

    fn on_event(&mut self, event: &Event) -> Result<()> {
        if event.step() == 2 {
            self.reach("on_event")?;
        }
        Ok(())
    }
}

impl Stateful for RustPanics {
    const VERSION: u32 = 1;

    fn save(&self, _: &mut StateWriter) -> Result<()> {
        self.reach("snapshot")
    }

    fn load(&mut self, _: &StateReader) -> Result<()> {
        Ok(())
    }
}

impl Drop for RustPanics {
    fn drop(&mut self) {
        // A panic of a destructor has nobody to report to, and must not end the process.
        self.reach("destroy").expect("destroy has no way to fail");
    }
}

tenon::plugin!(tenon::hook::<RustPanics>().stateful());
