// SPDX-License-Identifier: Apache-2.0

//! Map-style datasets without windows. dataset.h defines the contract.

use crate::abi::*;
use crate::component::{call_on, call_shared, required, Component, Descriptor};
use crate::error::{c_text, check, Error, Result};
use crate::exec::Exec;
use crate::host::{call, Host};
use crate::tensor::Element;
use std::ffi::{c_void, CString};
use std::marker::PhantomData;
use std::mem::size_of;
use std::slice;

/// A dataset of numbered samples. The host draws their order, and resumes it.
pub trait MapDataset: Component + Sync {
    /// Opens the data and describes its fields. [`Component::create`] must not open it.
    fn describe(&mut self) -> Result<DatasetInfo>;

    /// The number of samples.
    fn size(&self) -> Result<i64>;

    /// Reads samples as one batch, in the order of `indices`. Several reads run concurrently.
    fn read(&self, exec: &Exec, indices: &[i64], batch: &mut Batch) -> Result<()>;

    /// True if `lengths` works. The host can then pack several samples into one row.
    const HAS_LENGTHS: bool = false;

    /// Writes the lengths of samples `first`, `first + 1`, ... along the axis "T" to `out`. It must be
    /// cheap.
    fn lengths(&self, _first: i64, _out: &mut [i64]) -> Result<()> {
        Err(Error::invalid("no_lengths", "this dataset has no lengths"))
    }
}

/// The descriptor of a map-style dataset.
pub fn map_dataset<T: MapDataset>() -> Descriptor<T> {
    Descriptor::new("dataset", TENON_DATASET_ID, &Table::<T>::TABLE)
}

/// Declares a field of the batch; the calls chain.
pub struct Field {
    name: CString,
    names_of_axes: Vec<CString>,
    axes: Vec<tenon_axis>,
    dtype: u32,
    pad: f64,
}

impl Field {
    /// A field of a dtype, `TENON_I64` for example. Its first axis is "B".
    pub fn new(name: &str, dtype: u32) -> Self {
        let (names_of_axes, axes) = (Vec::new(), Vec::new());
        Field { name: c_text(name), names_of_axes, axes, dtype, pad: 0.0 }.axis("B", -1)
    }

    /// Adds an axis; size -1 is known only at run time.
    pub fn axis(mut self, name: &str, size: i64) -> Self {
        self.names_of_axes.push(c_text(name));
        let name = self.names_of_axes[self.names_of_axes.len() - 1].as_ptr();
        self.axes.push(tenon_axis { name, size });
        self
    }

    /// Sets the padding value.
    pub fn pad(mut self, value: f64) -> Self {
        self.pad = value;
        self
    }
}

/// The fields of a dataset, numbered from 0.
pub struct DatasetInfo {
    fields: Vec<Field>,
    specs: Vec<tenon_field_spec>,
}

impl DatasetInfo {
    /// A dataset with these fields.
    pub fn new(fields: Vec<Field>) -> Self {
        let spec = |field: &Field| tenon_field_spec {
            struct_size: size_of::<tenon_field_spec>(),
            name: field.name.as_ptr(),
            axes: field.axes.as_ptr(),
            num_axes: field.axes.len(),
            dtype: field.dtype,
            flags: 0,
            pad: field.pad,
        };
        let specs = fields.iter().map(spec).collect();
        DatasetInfo { fields, specs }
    }
}

/// Receives the samples of one read.
pub struct Batch<'a> {
    host: Host,
    raw: *mut tenon_batch_writer,
    fields: &'a [Field],
}

impl Batch<'_> {
    /// Allocates a field, filled with zeros, and returns its elements in row-major order. T is the
    /// type of its dtype.
    ///
    /// Errors   TENON_INVALID for a field or shape that contradicts the description
    pub fn add<T: Element>(&mut self, field: usize, shape: &[i64]) -> Result<&mut [T]> {
        if self.fields.get(field).map_or(true, |declared| declared.dtype != T::DTYPE) {
            let message = format!("field {} does not exist or has another dtype", field);
            return Err(Error::invalid("field", message));
        }
        let numel =
            shape.iter().try_fold(1usize, |n, size| n.checked_mul(usize::try_from(*size).ok()?));
        let numel =
            numel.ok_or_else(|| Error::invalid("shape", "a shape is negative or too large"))?;
        let mut data = std::ptr::null_mut();
        unsafe {
            let (writer, ndim) = (&*self.raw, shape.len() as u32);
            let (field, shape) = (field as u32, shape.as_ptr());
            check(self.host, call!(writer.add(self.raw, field, ndim, shape, &mut data)))?;
            if numel == 0 || data.is_null() {
                return Ok(&mut []);
            }
            std::ptr::write_bytes(data as *mut T, 0, numel);
            Ok(slice::from_raw_parts_mut(data as *mut T, numel))
        }
    }

    /// Sets the number of samples, and of tokens that are not padding; 0 if tokens have no meaning.
    pub fn set_counts(&mut self, samples: i64, tokens: i64) -> Result<()> {
        unsafe {
            let writer = &*self.raw;
            check(self.host, call!(writer.set_counts(self.raw, samples, tokens)))
        }
    }

    /// Sets the number of valid entries of each sample along the axis "T"; the rest is padding.
    pub fn set_lengths(&mut self, lengths: &[i64]) -> Result<()> {
        unsafe {
            let writer = &*self.raw;
            check(self.host, call!(writer.set_lengths(self.raw, lengths.as_ptr(), lengths.len())))
        }
    }
}

struct Table<T>(PhantomData<T>);

impl<T: MapDataset> Table<T> {
    const TABLE: tenon_dataset = tenon_dataset {
        struct_size: size_of::<tenon_dataset>(),
        describe: Some(describe::<T>),
        size: Some(size::<T>),
        read: Some(read::<T>),
        next: None,
        seek: None,
        next_window: None,
        reset: None,
        lengths: if T::HAS_LENGTHS { Some(lengths::<T>) } else { None },
    };
}

unsafe extern "C" fn describe<T: MapDataset>(
    this: *mut c_void,
    out: *mut tenon_dataset_info,
) -> *mut tenon_status {
    call_on::<T>(this, |instance| {
        let out = required(out)?;
        let info = Box::new(instance.value.describe()?);
        out.style = TENON_DATASET_MAP;
        out.fields_ref = info.specs.as_ptr();
        out.num_fields = info.specs.len();
        instance.described = Some(info);
        Ok(())
    })
}

unsafe extern "C" fn size<T: MapDataset>(
    this: *mut c_void,
    _window: *const tenon_window,
    out: *mut i64,
) -> *mut tenon_status {
    call_shared::<T>(this, |instance| {
        *required(out)? = instance.value.size()?;
        Ok(())
    })
}

unsafe extern "C" fn read<T: MapDataset>(
    this: *mut c_void,
    exec: *const tenon_exec,
    args: *const tenon_read_args,
) -> *mut tenon_status {
    call_shared::<T>(this, |instance| {
        let args = match args.as_ref() {
            Some(args) if !args.writer.is_null() => args,
            _ => return Err(Error::invalid("invalid", "an argument of read is null")),
        };
        let described = instance.described.as_ref().and_then(|info| info.downcast_ref());
        let info: &DatasetInfo =
            described.ok_or_else(|| Error::invalid("invalid", "read is called before describe"))?;
        let indices = if args.indices.is_null() || args.num_indices == 0 {
            &[]
        } else {
            slice::from_raw_parts(args.indices, args.num_indices)
        };
        let mut batch = Batch { host: instance.host, raw: args.writer, fields: &info.fields };
        instance.value.read(&Exec::new(exec)?, indices, &mut batch)
    })
}

unsafe extern "C" fn lengths<T: MapDataset>(
    this: *mut c_void,
    _exec: *const tenon_exec,
    args: *const tenon_lengths_args,
) -> *mut tenon_status {
    call_shared::<T>(this, |instance| {
        let args = match args.as_ref() {
            Some(args) if !args.out_lengths.is_null() || args.num_samples == 0 => args,
            _ => return Err(Error::invalid("invalid", "an argument of lengths is null")),
        };
        let out = if args.num_samples == 0 {
            &mut []
        } else {
            slice::from_raw_parts_mut(args.out_lengths, args.num_samples)
        };
        instance.value.lengths(args.first, out)
    })
}
