// SPDX-License-Identifier: Apache-2.0

//! The options of a component.

use crate::abi::*;
use crate::error::{c_text, check, text_of, Result};
use crate::host::{call, Host};
use std::marker::PhantomData;

/// The options of the recipe. They fit the schema of the component, and have all defaults. A pointer
/// such as "/betas/0" names a value.
pub struct Options<'a> {
    host: Host,
    raw: *const tenon_options,
    lifetime: PhantomData<&'a ()>,
}

impl Options<'_> {
    /// # Safety
    /// `raw` are the options of the call in progress.
    pub(crate) unsafe fn new(host: Host, raw: *const tenon_options) -> Self {
        Options { host, raw, lifetime: PhantomData }
    }

    fn api(&self) -> Result<&'static tenon_options_api> {
        self.host.service(TENON_OPTIONS_ID)
    }

    /// Reads a boolean.
    pub fn bool(&self, pointer: &str) -> Result<bool> {
        let (api, mut value) = (self.api()?, 0);
        let status = unsafe { call!(api.get_bool(self.raw, c_text(pointer).as_ptr(), &mut value)) };
        unsafe { check(self.host, status)? };
        Ok(value != 0)
    }

    /// Reads an integer.
    pub fn int(&self, pointer: &str) -> Result<i64> {
        let (api, mut value) = (self.api()?, 0);
        let status = unsafe { call!(api.get_int(self.raw, c_text(pointer).as_ptr(), &mut value)) };
        unsafe { check(self.host, status)? };
        Ok(value)
    }

    /// Reads a number.
    pub fn double(&self, pointer: &str) -> Result<f64> {
        let (api, mut value) = (self.api()?, 0.0);
        let status =
            unsafe { call!(api.get_double(self.raw, c_text(pointer).as_ptr(), &mut value)) };
        unsafe { check(self.host, status)? };
        Ok(value)
    }

    /// Reads a string.
    pub fn string(&self, pointer: &str) -> Result<String> {
        let (api, mut value) = (self.api()?, std::ptr::null());
        let status =
            unsafe { call!(api.get_string(self.raw, c_text(pointer).as_ptr(), &mut value)) };
        unsafe { check(self.host, status)? };
        Ok(unsafe { text_of(value) })
    }
}
