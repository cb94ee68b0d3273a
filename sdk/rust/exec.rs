// SPDX-License-Identifier: Apache-2.0

//! The context of a call.

use crate::abi::*;
use crate::error::{Error, Result};
use crate::host::Host;

/// Where and for what a call runs. It is valid until the call returns.
pub struct Exec<'a> {
    raw: &'a tenon_exec,
}

impl<'a> Exec<'a> {
    /// # Safety
    /// `exec` is null or the context of the call in progress.
    pub(crate) unsafe fn new(exec: *const tenon_exec) -> Result<Self> {
        match exec.as_ref() {
            Some(raw) => Ok(Exec { raw }),
            None => Err(Error::invalid("invalid", "exec is null")),
        }
    }

    pub(crate) fn device(&self) -> tenon_device {
        self.raw.device
    }

    /// The plugin's host.
    pub fn host(&self) -> Host {
        unsafe { Host::new(self.raw.host) }
    }

    /// The training step, from 1; 0 before the first.
    pub fn step(&self) -> u64 {
        self.raw.step
    }

    /// The seed of this call: the only source of randomness that a resumed run repeats.
    pub fn seed(&self) -> u64 {
        self.raw.seed
    }

    /// The dtype of floating-point activations, `TENON_F32` for example.
    pub fn compute_dtype(&self) -> u32 {
        self.raw.compute_dtype
    }

    /// True if the run is about to end. A long call may then give up with `TENON_CANCELLED`.
    pub fn stop_requested(&self) -> bool {
        self.raw.stop_requested.map_or(false, |asked| unsafe { asked(self.raw) != 0 })
    }
}
