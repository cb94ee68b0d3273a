// SPDX-License-Identifier: Apache-2.0

//! Losses with a hand-written gradient. loss.h defines the contract.

use crate::abi::*;
use crate::component::{call_on, required, Component, Descriptor};
use crate::error::{c_text, Error, Result};
use crate::exec::Exec;
use crate::host::Host;
use crate::tensor::{Tensor, TensorRef};
use std::ffi::{c_void, CString};
use std::marker::PhantomData;
use std::mem::size_of;

/// A loss: a sum over items, its gradient, and the number of items. A loss never divides.
pub trait Loss: Component {
    /// Describes inputs and properties.
    fn describe(&self) -> LossInfo;

    /// Counts the items of one microbatch. With [`LossInfo::count_from_batch`], outputs of the model
    /// are absent from `inputs`.
    fn count(&mut self, exec: &Exec, inputs: &Inputs) -> Result<f64>;

    /// Sums the loss of one microbatch.
    fn compute(&mut self, exec: &Exec, inputs: &Inputs) -> Result<f64>;

    /// Computes the gradient of the sum with respect to each input, times `grad_sum`; `None` for an
    /// input without a gradient.
    fn backward(
        &mut self,
        exec: &Exec,
        inputs: &Inputs,
        grad_sum: f64,
    ) -> Result<Vec<Option<Tensor>>>;
}

/// The descriptor of a loss.
pub fn loss<T: Loss>() -> Descriptor<T> {
    Descriptor::new("loss", TENON_LOSS_ID, &Table::<T>::TABLE)
}

/// Describes a loss; the calls chain.
#[derive(Default)]
pub struct LossInfo {
    names: Vec<CString>,
    ports: Vec<tenon_port>,
    additive_over: u32,
    flags: u32,
}

impl LossInfo {
    /// A loss without inputs, which is not additive.
    pub fn new() -> Self {
        LossInfo::default()
    }

    /// Declares an input of any shape. `dtype` is a dtype or a class of ports.h.
    pub fn port(mut self, name: &str, dtype: u32) -> Self {
        self.names.push(c_text(name));
        self.ports.push(tenon_port {
            struct_size: size_of::<tenon_port>(),
            name: self.names[self.names.len() - 1].as_ptr(),
            dtype,
            flags: 0,
            axes: std::ptr::null(),
            num_axes: 0,
        });
        self
    }

    /// Sets the axis along which the sum over parts equals the sum over the whole, `TENON_ADDITIVE_*`.
    pub fn additive_over(mut self, axis: u32) -> Self {
        self.additive_over = axis;
        self
    }

    /// Declares that `count` uses only fields of the batch.
    pub fn count_from_batch(mut self) -> Self {
        self.flags |= TENON_LOSS_COUNT_FROM_BATCH;
        self
    }
}

/// The inputs of a call, in the order of the ports.
pub struct Inputs<'a> {
    host: Host,
    raw: *const *const tenon_tensor,
    len: usize,
    lifetime: PhantomData<&'a ()>,
}

impl<'a> Inputs<'a> {
    /// # Safety
    /// `raw` has `len` entries, which are null or tensors that live as long as 'a.
    unsafe fn new(host: Host, raw: *const *const tenon_tensor, len: usize) -> Self {
        Inputs { host, raw, len: if raw.is_null() { 0 } else { len }, lifetime: PhantomData }
    }

    /// The number of inputs.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no inputs.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Input i.
    ///
    /// Errors   TENON_INVALID if it is absent
    pub fn get(&self, i: usize) -> Result<TensorRef<'a>> {
        if i >= self.len || unsafe { (*self.raw.add(i)).is_null() } {
            return Err(Error::invalid("no_input", format!("input {} is absent", i)));
        }
        unsafe { TensorRef::new(self.host, *self.raw.add(i)) }
    }
}

struct Table<T>(PhantomData<T>);

impl<T: Loss> Table<T> {
    const TABLE: tenon_loss = tenon_loss {
        struct_size: size_of::<tenon_loss>(),
        describe: Some(describe::<T>),
        count: Some(count::<T>),
        compute: Some(compute::<T>),
        backward: Some(backward::<T>),
    };
}

unsafe extern "C" fn describe<T: Loss>(
    this: *mut c_void,
    out: *mut tenon_loss_info,
) -> *mut tenon_status {
    call_on::<T>(this, |instance| {
        let out = required(out)?;
        let info = Box::new(instance.value.describe());
        out.additive_over = info.additive_over;
        out.flags = info.flags;
        out.ports_ref = info.ports.as_ptr();
        out.num_ports = info.ports.len();
        instance.described = Some(info);
        Ok(())
    })
}

unsafe extern "C" fn count<T: Loss>(
    this: *mut c_void,
    exec: *const tenon_exec,
    args: *mut tenon_loss_count_args,
) -> *mut tenon_status {
    call_on::<T>(this, |instance| {
        let (exec, args) = (Exec::new(exec)?, required(args)?);
        let inputs = Inputs::new(instance.host, args.inputs, args.num_inputs);
        let items = instance.value.count(&exec, &inputs)?;
        args.out_count_own = Tensor::full(&exec, TENON_F64, &[], items)?.into_raw();
        Ok(())
    })
}

unsafe extern "C" fn compute<T: Loss>(
    this: *mut c_void,
    exec: *const tenon_exec,
    args: *mut tenon_loss_compute_args,
) -> *mut tenon_status {
    call_on::<T>(this, |instance| {
        let (exec, args) = (Exec::new(exec)?, required(args)?);
        let inputs = Inputs::new(instance.host, args.inputs, args.num_inputs);
        let sum = instance.value.compute(&exec, &inputs)?;
        let is_double = exec.compute_dtype() == TENON_F64;
        let dtype = if is_double { TENON_F64 } else { TENON_F32 };
        args.out_sum_own = Tensor::full(&exec, dtype, &[], sum)?.into_raw();
        Ok(())
    })
}

unsafe extern "C" fn backward<T: Loss>(
    this: *mut c_void,
    exec: *const tenon_exec,
    args: *const tenon_loss_backward_args,
) -> *mut tenon_status {
    call_on::<T>(this, |instance| {
        let (exec, args) = (Exec::new(exec)?, required(args as *mut tenon_loss_backward_args)?);
        if args.grad_inputs_own.is_null() {
            return Err(Error::invalid("invalid", "an argument of backward is null"));
        }
        let inputs = Inputs::new(instance.host, args.inputs, args.num_inputs);
        let factor = TensorRef::new(instance.host, args.grad_sum)?.item()?;
        let grads = instance.value.backward(&exec, &inputs, factor)?;
        if grads.len() != inputs.len() {
            let message =
                format!("backward returned {} gradients for {} inputs", grads.len(), inputs.len());
            return Err(Error::invalid("invalid", message));
        }
        for (i, grad) in grads.into_iter().enumerate() {
            *args.grad_inputs_own.add(i) = grad.map_or(std::ptr::null_mut(), Tensor::into_raw);
        }
        Ok(())
    })
}
