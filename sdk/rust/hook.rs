// SPDX-License-Identifier: Apache-2.0

//! Hooks. hook.h defines the contract.

use crate::abi::*;
use crate::component::{call_on, required, Component, Descriptor};
use crate::error::{c_text, check, text_of, Error, Result};
use crate::host::{call, Host};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::size_of;

/// A hook: called at the events of a run that it subscribes to.
pub trait Hook: Component {
    /// Describes events and access.
    fn describe(&self) -> HookInfo;

    /// Handles an event.
    fn on_event(&mut self, event: &Event) -> Result<()>;
}

/// The descriptor of a hook.
pub fn hook<T: Hook>() -> Descriptor<T> {
    Descriptor::new("hook", TENON_HOOK_ID, &Table::<T>::TABLE)
}

/// Describes a hook; the calls chain.
#[derive(Default)]
pub struct HookInfo {
    events: u64,
    reads: u32,
    writes: u32,
    rank_0_only: bool,
}

impl HookInfo {
    /// A hook that is called at these events, `TENON_EVENT_*`.
    pub fn on(events: &[u32]) -> Self {
        let events = events.iter().fold(0, |bits, event| bits | 1 << event);
        HookInfo { events, ..HookInfo::default() }
    }

    /// Declares what the hook reads, `TENON_TOUCH_*`.
    pub fn reads(mut self, objects: u32) -> Self {
        self.reads |= objects;
        self
    }

    /// Declares what the hook writes, `TENON_TOUCH_*`.
    pub fn writes(mut self, objects: u32) -> Self {
        self.writes |= objects;
        self
    }

    /// Declares that the hook is called only on rank 0.
    pub fn rank_0_only(mut self) -> Self {
        self.rank_0_only = true;
        self
    }
}

/// One event, with the access of a hook to the run.
pub struct Event<'a> {
    host: Host,
    raw: &'a tenon_event,
    api: &'a tenon_run_api,
}

impl Event<'_> {
    /// Which event it is, `TENON_EVENT_*`.
    pub fn id(&self) -> u32 {
        self.raw.id
    }

    /// The current or last finished step, from 1; 0 before the first.
    pub fn step(&self) -> u64 {
        self.raw.step
    }

    /// What the event reports, for example the error at `TENON_EVENT_ON_ERROR`.
    pub fn message(&self) -> String {
        unsafe { text_of(self.raw.message) }
    }

    /// The loss of the current step over all ranks; `None` if it is non-finite. The hook declares to
    /// read `TENON_TOUCH_LOSS`.
    pub fn step_loss(&self) -> Result<Option<f64>> {
        let (api, mut loss) = (self.api, 0.0);
        match unsafe { check(self.host, call!(api.get_step_loss(self.raw.run, &mut loss))) } {
            Ok(()) => Ok(Some(loss)),
            Err(error) if error.code() == TENON_NOT_FOUND => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds a metric to the next record.
    pub fn add_metric(&self, name: &str, value: f64) -> Result<()> {
        let api = self.api;
        let name = c_text(name);
        unsafe { check(self.host, call!(api.add_metric(self.raw.run, name.as_ptr(), value))) }
    }

    /// Makes requests, `TENON_REQUEST_*`. `reason` is logged.
    pub fn request(&self, requests: u32, reason: &str) -> Result<()> {
        let api = self.api;
        let reason = c_text(reason);
        unsafe { check(self.host, call!(api.request(self.raw.run, requests, reason.as_ptr()))) }
    }
}

struct Table<T>(PhantomData<T>);

impl<T: Hook> Table<T> {
    const TABLE: tenon_hook = tenon_hook {
        struct_size: size_of::<tenon_hook>(),
        describe: Some(describe::<T>),
        on_event: Some(on_event::<T>),
    };
}

unsafe extern "C" fn describe<T: Hook>(
    this: *mut c_void,
    out: *mut tenon_hook_info,
) -> *mut tenon_status {
    call_on::<T>(this, |instance| {
        let out = required(out)?;
        let info = instance.value.describe();
        out.events = info.events;
        out.reads = info.reads;
        out.writes = info.writes;
        out.rank_0_only = info.rank_0_only as u32;
        Ok(())
    })
}

unsafe extern "C" fn on_event<T: Hook>(
    this: *mut c_void,
    event: *const tenon_event,
) -> *mut tenon_status {
    call_on::<T>(this, |instance| {
        let raw = required(event as *mut tenon_event)?;
        let host = instance.host;
        match raw.api.as_ref() {
            Some(api) => instance.value.on_event(&Event { host, raw, api }),
            None => Err(Error::invalid("invalid", "an argument of on_event is null")),
        }
    })
}
