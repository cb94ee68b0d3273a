// SPDX-License-Identifier: Apache-2.0

//! Tensors of the host.

use crate::abi::*;
use crate::error::{check, Error, Result};
use crate::exec::Exec;
use crate::host::{call, Host};
use std::marker::PhantomData;
use std::mem::{align_of, size_of, zeroed};
use std::slice;

/// A type of elements.
///
/// # Safety
/// The type has the representation of the dtype, and every bit pattern is a value.
pub unsafe trait Element: Copy + 'static {
    /// The dtype, `TENON_F32` for example.
    const DTYPE: u32;
}

macro_rules! elements {
    ($($kind:ty = $dtype:ident),+) => {
        $(unsafe impl Element for $kind {
            const DTYPE: u32 = $dtype;
        })+
    };
}
elements!(
    u8 = TENON_U8,
    i8 = TENON_I8,
    i16 = TENON_I16,
    i32 = TENON_I32,
    i64 = TENON_I64,
    f32 = TENON_F32,
    f64 = TENON_F64
);

/// The metadata of a tensor.
///
/// # Safety
/// `raw` is null or a tensor.
unsafe fn info_of(host: Host, raw: *const tenon_tensor) -> Result<tenon_tensor_info> {
    let api: &tenon_tensor_api = host.service(TENON_TENSOR_ID)?;
    let mut info: tenon_tensor_info = zeroed();
    info.struct_size = size_of::<tenon_tensor_info>();
    check(host, call!(api.info(raw, &mut info)))?;
    Ok(info)
}

/// The first element, if elements of type T can be read there.
fn data_of<T: Element>(info: &tenon_tensor_info) -> Result<*mut T> {
    if info.dtype != T::DTYPE {
        let message = format!("the dtype is {} (expected {})", info.dtype, T::DTYPE);
        return Err(Error::unsupported("dtype", message));
    }
    if info.device.r#type != TENON_CPU as i32 || info.is_contiguous == 0 {
        return Err(Error::unsupported("layout", "a tensor must be contiguous and on the CPU"));
    }
    let data = info.data as *mut T;
    if info.numel == 0 {
        return Ok(std::ptr::NonNull::dangling().as_ptr());
    }
    if data.is_null() || data as usize % align_of::<T>() != 0 {
        return Err(Error::unsupported("layout", "a tensor has no data or is not aligned"));
    }
    Ok(data)
}

/// A tensor that is borrowed from the host until the call returns.
pub struct TensorRef<'a> {
    host: Host,
    raw: *const tenon_tensor,
    info: tenon_tensor_info,
    lifetime: PhantomData<&'a ()>,
}

impl<'a> TensorRef<'a> {
    /// # Safety
    /// `raw` is null or a tensor that lives as long as 'a.
    pub(crate) unsafe fn new(host: Host, raw: *const tenon_tensor) -> Result<Self> {
        Ok(TensorRef { host, raw, info: info_of(host, raw)?, lifetime: PhantomData })
    }

    /// The size of each axis; empty for a scalar.
    pub fn shape(&self) -> &[i64] {
        if self.info.ndim == 0 {
            return &[];
        }
        unsafe { slice::from_raw_parts(self.info.shape_ref, self.info.ndim as usize) }
    }

    /// The elements in row-major order.
    ///
    /// Errors   TENON_UNSUPPORTED for another dtype, a device, or a view with gaps
    pub fn elements<T: Element>(&self) -> Result<&'a [T]> {
        let data = data_of::<T>(&self.info)?;
        Ok(unsafe { slice::from_raw_parts(data, self.info.numel as usize) })
    }

    /// The only element, from any device and of any dtype.
    ///
    /// Errors   TENON_INVALID if the tensor does not have exactly one element
    pub fn item(&self) -> Result<f64> {
        let api: &tenon_tensor_api = self.host.service(TENON_TENSOR_ID)?;
        let mut value = 0.0;
        unsafe { check(self.host, call!(api.item(self.host.as_ptr(), self.raw, &mut value)))? };
        Ok(value)
    }
}

/// A tensor that this plugin made. Its handle is released when it is dropped.
pub struct Tensor {
    host: Host,
    raw: *mut tenon_tensor,
}

// Handles may be used and released on any thread.
unsafe impl Send for Tensor {}

impl Tensor {
    /// A tensor of zeros on the device of the call.
    ///
    /// Errors   TENON_INVALID for a negative size; TENON_OUT_OF_MEMORY
    pub fn zeros<T: Element>(exec: &Exec, shape: &[i64]) -> Result<Self> {
        Tensor::full(exec, T::DTYPE, shape, 0.0)
    }

    /// A tensor with one value on the device of the call; with an empty shape, a scalar.
    ///
    /// Errors   TENON_INVALID for a negative size or an unknown dtype; TENON_OUT_OF_MEMORY
    pub fn full(exec: &Exec, dtype: u32, shape: &[i64], value: f64) -> Result<Self> {
        let (host, device, ndim) = (exec.host(), exec.device(), shape.len() as u32);
        let api: &tenon_tensor_api = host.service(TENON_TENSOR_ID)?;
        let mut raw = std::ptr::null_mut();
        let status = unsafe {
            call!(api.full(host.as_ptr(), dtype, device, ndim, shape.as_ptr(), value, &mut raw))
        };
        unsafe { check(host, status)? };
        Ok(Tensor { host, raw })
    }

    /// The elements in row-major order.
    ///
    /// Errors   TENON_UNSUPPORTED for another dtype or a device
    pub fn elements_mut<T: Element>(&mut self) -> Result<&mut [T]> {
        let info = unsafe { info_of(self.host, self.raw)? };
        let data = data_of::<T>(&info)?;
        Ok(unsafe { slice::from_raw_parts_mut(data, info.numel as usize) })
    }

    /// The handle, which the caller releases.
    pub(crate) fn into_raw(self) -> *mut tenon_tensor {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        let api = self.host.service::<tenon_tensor_api>(TENON_TENSOR_ID);
        if let Ok(tenon_tensor_api { release: Some(release), .. }) = api {
            unsafe { release(self.raw) };
        }
    }
}
