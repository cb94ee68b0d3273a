// SPDX-License-Identifier: Apache-2.0

//! Learning rate schedules. lr_scheduler.h defines the contract.

use crate::abi::*;
use crate::component::{call_on, required, Component, Descriptor};
use crate::error::Result;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::size_of;

/// A schedule: a factor on the learning rate, as a pure function of the step.
pub trait LrScheduler: Component {
    /// True if `factor` needs the length of the run.
    const NEEDS_TOTAL: bool = false;

    /// The factor for a step, which counts from 0. `total` is the number of steps of the run; 0 if
    /// unknown.
    fn factor(&mut self, step: u64, total: u64) -> Result<f64>;
}

/// The descriptor of a schedule.
pub fn lr_scheduler<T: LrScheduler>() -> Descriptor<T> {
    Descriptor::new("lr_scheduler", TENON_LR_SCHEDULER_ID, &Table::<T>::TABLE)
}

struct Table<T>(PhantomData<T>);

impl<T: LrScheduler> Table<T> {
    const TABLE: tenon_lr_scheduler = tenon_lr_scheduler {
        struct_size: size_of::<tenon_lr_scheduler>(),
        describe: Some(describe::<T>),
        factor: Some(factor::<T>),
    };
}

unsafe extern "C" fn describe<T: LrScheduler>(
    this: *mut c_void,
    out: *mut tenon_lr_scheduler_info,
) -> *mut tenon_status {
    call_on::<T>(this, |_| {
        required(out)?.needs_total = T::NEEDS_TOTAL as u32;
        Ok(())
    })
}

unsafe extern "C" fn factor<T: LrScheduler>(
    this: *mut c_void,
    args: *mut tenon_lr_factor_args,
) -> *mut tenon_status {
    call_on::<T>(this, |instance| {
        let args = required(args)?;
        args.out_factor = instance.value.factor(args.step, args.total)?;
        Ok(())
    })
}
