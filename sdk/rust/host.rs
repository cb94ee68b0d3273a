// SPDX-License-Identifier: Apache-2.0

//! The host, and its services by id.

use crate::abi::*;
use crate::error::{c_text, Error, Result};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The plugin's handle to the host, which lives as long as the process.
#[derive(Clone, Copy)]
pub struct Host(*const tenon_host);

// Services may be used on any thread.
unsafe impl Send for Host {}
unsafe impl Sync for Host {}

/// The host that loaded this library, for calls without an instance.
static LOADER: AtomicPtr<tenon_host> = AtomicPtr::new(std::ptr::null_mut());

impl Host {
    /// # Safety
    /// `host` is null or a host.
    pub(crate) unsafe fn new(host: *const tenon_host) -> Self {
        Host(if host.is_null() { LOADER.load(Ordering::Acquire) } else { host })
    }

    /// The host that loaded this library.
    pub(crate) fn loader() -> Self {
        Host(LOADER.load(Ordering::Acquire))
    }

    pub(crate) fn set_loader(self) {
        LOADER.store(self.0 as *mut tenon_host, Ordering::Release);
    }

    pub(crate) fn as_ptr(self) -> *const tenon_host {
        self.0
    }

    /// The function table of a service.
    ///
    /// `T` must be the type that belongs to `id`, so this is not public.
    pub(crate) fn service<T>(self, id: &CStr) -> Result<&'static T> {
        let table = unsafe { self.0.as_ref() }
            .and_then(|host| host.get_interface)
            .map_or(std::ptr::null(), |get| unsafe { get(self.0, id.as_ptr()) });
        unsafe { (table as *const T).as_ref() }.ok_or_else(|| {
            Error::unsupported(
                "no_service",
                format!("this host has no service {}", id.to_string_lossy()),
            )
        })
    }

    /// Writes a line to the log of the run. `level` is `TENON_LOG_INFO` or another level of log.h.
    pub fn log(self, level: u32, message: &str) {
        if let Ok(tenon_log_api { write: Some(write), .. }) = self.service(TENON_LOG_ID) {
            unsafe { write(self.0, level, c_text(message).as_ptr()) };
        }
    }
}

/// Calls a function of a table of the host.
macro_rules! call {
    ($table:ident.$function:ident($($argument:expr),* $(,)?)) => {
        match $table.$function {
            Some(function) => function($($argument),*),
            None => panic!(concat!("the host lacks ", stringify!($function))),
        }
    };
}
pub(crate) use call;
