// SPDX-License-Identifier: Apache-2.0

//! Converts errors at the boundary: errors and panics become statuses on the way out, statuses
//! become errors on the way in. No other file catches panics or releases statuses.

use crate::abi::*;
use crate::host::Host;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe, Location};
use std::sync::Once;

/// The result of a call that may fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: made by plugins, or a status of the host.
#[derive(Clone, Debug)]
pub struct Error {
    code: u32,
    id: String,
    message: String,
    file: String,
    line: u32,
}

impl Error {
    /// `code` is a `TENON_*` code of status.h, and `id` a stable name such as "focal.bad_gamma". The
    /// error has the place of the caller.
    #[track_caller]
    pub fn new(code: u32, id: &str, message: impl Into<String>) -> Self {
        let place = Location::caller();
        Error {
            code,
            id: id.to_string(),
            message: message.into(),
            file: place.file().to_string(),
            line: place.line(),
        }
    }

    /// An argument, option or shape is invalid.
    #[track_caller]
    pub fn invalid(id: &str, message: impl Into<String>) -> Self {
        Error::new(TENON_INVALID, id, message)
    }

    /// The component does not support something valid.
    #[track_caller]
    pub fn unsupported(id: &str, message: impl Into<String>) -> Self {
        Error::new(TENON_UNSUPPORTED, id, message)
    }

    /// The code, for example `TENON_INVALID`.
    pub fn code(&self) -> u32 {
        self.code
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}] {} at {}:{}", self.id, self.message, self.file, self.line)
    }
}

impl std::error::Error for Error {}

/// A copy of a text for C. It ends before the first NUL.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or("")).unwrap_or_default()
}

/// A copy of a text of the host; "" if it is null.
///
/// # Safety
/// `text` is null or ends with NUL.
pub(crate) unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    CStr::from_ptr(text).to_string_lossy().into_owned()
}

/// Converts a status of the host, and releases it.
///
/// # Safety
/// `status` is null or a status that the caller owns.
pub(crate) unsafe fn check(host: Host, status: *mut tenon_status) -> Result<()> {
    if status.is_null() {
        return Ok(());
    }
    let api: &tenon_status_api = host.service(TENON_STATUS_ID)?;
    let text = |read: Option<unsafe extern "C" fn(*const tenon_status) -> *const c_char>| {
        read.map_or(String::new(), |read| text_of(read(status)))
    };
    let error = Error {
        code: api.code.map_or(TENON_INTERNAL, |code| code(status)),
        id: text(api.id),
        message: text(api.message),
        file: text(api.file),
        line: api.line.map_or(0, |line| line(status)) as u32,
    };
    if let Some(release) = api.release {
        release(status);
    }
    Err(error)
}

/// Makes a status of an error; null only if there is no host.
fn status_of(host: Host, error: &Error) -> *mut tenon_status {
    let make = match host.service::<tenon_status_api>(TENON_STATUS_ID) {
        Ok(tenon_status_api { make: Some(make), .. }) => make,
        _ => return std::ptr::null_mut(),
    };
    let (id, message, file) = (c_text(&error.id), c_text(&error.message), c_text(&error.file));
    unsafe {
        make(
            host.as_ptr(),
            error.code,
            id.as_ptr(),
            message.as_ptr(),
            file.as_ptr(),
            error.line as i32,
        )
    }
}

thread_local! {
    /// How many guards are below on the stack of this thread.
    static GUARDS: Cell<usize> = Cell::new(0);
    /// File and line of the last panic inside a guard of this thread.
    static PLACE: RefCell<(String, u32)> = RefCell::new(Default::default());
}

/// Keeps the place of panics inside a guard, and prints nothing about them. Panics elsewhere, on
/// threads of the plugin, are printed as usual. Each plugin has its own copy of Rust's library, so
/// this does not affect others.
pub(crate) fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if GUARDS.with(Cell::get) == 0 {
                usual(info);
            } else if let Some(place) = info.location() {
                let place = (place.file().to_string(), place.line());
                let _ = PLACE.try_with(|last| *last.borrow_mut() = place); // the thread may end
            }
        }));
    });
}

/// Runs the body of a function that the host calls. An error or a panic becomes a status.
pub(crate) fn guard(host: Host, body: impl FnOnce() -> Result<()>) -> *mut tenon_status {
    match caught(body) {
        Ok(()) => std::ptr::null_mut(),
        Err(error) => status_of(host, &error),
    }
}

/// Runs `body`. A panic becomes an error.
pub(crate) fn caught(body: impl FnOnce() -> Result<()>) -> Result<()> {
    GUARDS.with(|n| n.set(n.get() + 1));
    let result = catch_unwind(AssertUnwindSafe(body));
    GUARDS.with(|n| n.set(n.get() - 1));
    let payload = match result {
        Ok(result) => return result,
        Err(payload) => payload,
    };
    let said = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        _ => "a value that is no text",
    };
    let (file, line) = PLACE.try_with(RefCell::take).unwrap_or_default();
    let message = format!("panicked: {}", said);
    std::mem::forget(payload); // dropping it could panic again
    Err(Error { code: TENON_INTERNAL, id: "panic".to_string(), message, file, line })
}
