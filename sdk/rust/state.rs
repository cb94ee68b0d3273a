// SPDX-License-Identifier: Apache-2.0

//! State that checkpoints store.

use crate::abi::*;
use crate::component::{call_on, Component};
use crate::error::{c_text, check, Error, Result};
use crate::host::{call, Host};
use std::ffi::c_void;
use std::marker::PhantomData;

/// A component whose state is saved in checkpoints. Register it with [`stateful`].
///
/// [`stateful`]: crate::Descriptor::stateful
pub trait Stateful: Component {
    /// The version of the entries. Increase it when their meaning changes.
    const VERSION: u32;

    /// Saves the state. It must be cheap: the host calls it between two steps.
    fn save(&self, state: &mut StateWriter) -> Result<()>;

    /// Restores the state.
    fn load(&mut self, state: &StateReader) -> Result<()>;
}

/// Receives the entries of a checkpoint. Names are paths "a/b" of [a-z0-9_.-]. `scope` is
/// `TENON_STATE_REPLICATED` for values that are equal on all ranks, or another scope of state.h.
pub struct StateWriter<'a> {
    host: Host,
    raw: *mut tenon_state_writer,
    lifetime: PhantomData<&'a ()>,
}

impl StateWriter<'_> {
    /// Saves an integer.
    pub fn put_int(&mut self, name: &str, value: i64, scope: u32) -> Result<()> {
        unsafe {
            let writer = &*self.raw;
            let status = call!(writer.put_int(self.raw, c_text(name).as_ptr(), value, scope));
            check(self.host, status)
        }
    }

    /// Saves a double.
    pub fn put_double(&mut self, name: &str, value: f64, scope: u32) -> Result<()> {
        unsafe {
            let writer = &*self.raw;
            let status = call!(writer.put_double(self.raw, c_text(name).as_ptr(), value, scope));
            check(self.host, status)
        }
    }
}

/// Has the entries of a checkpoint.
pub struct StateReader<'a> {
    host: Host,
    raw: *mut tenon_state_reader,
    lifetime: PhantomData<&'a ()>,
}

impl StateReader<'_> {
    /// The version of the entries.
    pub fn version(&self) -> u32 {
        unsafe { (*self.raw).version }
    }

    /// Reads an integer.
    pub fn int(&self, name: &str) -> Result<i64> {
        let mut value = 0;
        unsafe {
            let reader = &*self.raw;
            let status = call!(reader.get_int(self.raw, c_text(name).as_ptr(), &mut value));
            check(self.host, status)?;
        }
        Ok(value)
    }

    /// Reads a double.
    pub fn double(&self, name: &str) -> Result<f64> {
        let mut value = 0.0;
        unsafe {
            let reader = &*self.raw;
            let status = call!(reader.get_double(self.raw, c_text(name).as_ptr(), &mut value));
            check(self.host, status)?;
        }
        Ok(value)
    }
}

pub(crate) struct Table<T>(PhantomData<T>);

impl<T: Stateful> Table<T> {
    pub(crate) const TABLE: tenon_stateful = tenon_stateful {
        struct_size: std::mem::size_of::<tenon_stateful>(),
        version: Some(version::<T>),
        snapshot: Some(snapshot::<T>),
        load: Some(load::<T>),
    };
}

unsafe extern "C" fn version<T: Stateful>(_this: *mut c_void) -> u32 {
    T::VERSION
}

unsafe extern "C" fn snapshot<T: Stateful>(
    this: *mut c_void,
    writer: *mut tenon_state_writer,
) -> *mut tenon_status {
    call_on::<T>(this, |instance| {
        if writer.is_null() {
            return Err(Error::invalid("invalid", "writer is null"));
        }
        let host = instance.host;
        instance.value.save(&mut StateWriter { host, raw: writer, lifetime: PhantomData })
    })
}

unsafe extern "C" fn load<T: Stateful>(
    this: *mut c_void,
    reader: *mut tenon_state_reader,
) -> *mut tenon_status {
    call_on::<T>(this, |instance| {
        if reader.is_null() {
            return Err(Error::invalid("invalid", "reader is null"));
        }
        let host = instance.host;
        instance.value.load(&StateReader { host, raw: reader, lifetime: PhantomData })
    })
}
