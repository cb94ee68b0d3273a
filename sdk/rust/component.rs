// SPDX-License-Identifier: Apache-2.0

//! Components: their creation, and their registration by the entry point.

use crate::abi::*;
use crate::error::{c_text, caught, check, guard, record_panics, text_of, Error, Result};
use crate::host::{call, Host};
use crate::options::Options;
use crate::state::{self, Stateful};
use std::any::Any;
use std::ffi::{c_void, CStr};
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::raw::c_char;

/// Anything that a recipe can name. Implement it together with the trait of a kind.
pub trait Component: Sized + Send + 'static {
    /// The name in recipes, for example "focal": [a-z0-9_].
    const TYPE: &'static str;
    /// One line for `--list-plugins`.
    const SUMMARY: &'static str;
    /// JSON Schema of the options. Every optional key has a default.
    const OPTIONS: &'static str =
        r#"{"type": "object", "additionalProperties": false, "properties": {}}"#;

    /// Creates an instance. It has no effect outside of the process: the host creates an instance of
    /// each component with default options when it first sees the plugin.
    fn create(context: &Context) -> Result<Self>;
}

/// The arguments of [`Component::create`].
pub struct Context<'a> {
    /// The plugin's host.
    pub host: Host,
    /// The options of the recipe.
    pub options: Options<'a>,
    /// JSON pointer of the component in the recipe, for example "/hooks/0".
    pub place: String,
    /// Seed of the instance, derived from the run's seed and `place`; equal on all ranks.
    pub seed: u64,
}

/// What `self` of the calls of an instance points to.
pub(crate) struct Instance<T> {
    pub(crate) host: Host,
    pub(crate) value: T,
    /// What the host borrows from the description.
    pub(crate) described: Option<Box<dyn Any>>,
}

/// Runs a call on an instance that the host makes one at a time.
///
/// # Safety
/// `this` is null or an instance of T, and no other call on it is running.
pub(crate) unsafe fn call_on<T>(
    this: *mut c_void,
    body: impl FnOnce(&mut Instance<T>) -> Result<()>,
) -> *mut tenon_status {
    let instance = this as *mut Instance<T>;
    let host = instance.as_ref().map_or(Host::loader(), |instance| instance.host);
    guard(host, || match instance.as_mut() {
        Some(instance) => body(instance),
        None => Err(Error::invalid("invalid", "self is null")),
    })
}

/// Runs a call on an instance that the host may make concurrently with others of this sort.
///
/// # Safety
/// `this` is null or an instance of T, and no call by [`call_on`] is running on it.
pub(crate) unsafe fn call_shared<T: Sync>(
    this: *mut c_void,
    body: impl FnOnce(&Instance<T>) -> Result<()>,
) -> *mut tenon_status {
    let instance = (this as *const Instance<T>).as_ref();
    guard(instance.map_or(Host::loader(), |instance| instance.host), || match instance {
        Some(instance) => body(instance),
        None => Err(Error::invalid("invalid", "self is null")),
    })
}

/// The argument struct of a call.
///
/// # Safety
/// `args` is null or valid, and nobody else uses it.
pub(crate) unsafe fn required<'a, A>(args: *mut A) -> Result<&'a mut A> {
    args.as_mut().ok_or_else(|| Error::invalid("invalid", "an argument is null"))
}

unsafe extern "C" fn create<T: Component>(
    host: *const tenon_host,
    args: *const tenon_create_args,
    out_self: *mut *mut c_void,
) -> *mut tenon_status {
    let host = Host::new(host);
    guard(host, || {
        let (args, out) = match (args.as_ref(), out_self.as_mut()) {
            (Some(args), Some(out)) if !args.options.is_null() => (args, out),
            _ => return Err(Error::invalid("invalid", "an argument of create is null")),
        };
        let value = T::create(&Context {
            host,
            options: Options::new(host, args.options),
            place: text_of(args.place),
            seed: args.seed,
        })?;
        *out = Box::into_raw(Box::new(Instance { host, value, described: None })) as *mut c_void;
        Ok(())
    })
}

unsafe extern "C" fn destroy<T>(this: *mut c_void) {
    if !this.is_null() {
        let instance = Box::from_raw(this as *mut Instance<T>);
        let host = instance.host;
        // `destroy` has no status, so a panic of T's destructor is logged.
        let dropped = caught(|| {
            drop(instance);
            Ok(())
        });
        if let Err(error) = dropped {
            host.log(TENON_LOG_ERROR, &error.to_string());
        }
    }
}

unsafe extern "C" fn get_extension<T: Stateful>(
    _this: *mut c_void,
    id: *const c_char,
) -> *const c_void {
    if !id.is_null() && CStr::from_ptr(id) == TENON_STATEFUL_ID {
        let table: &'static tenon_stateful = &state::Table::<T>::TABLE;
        return table as *const tenon_stateful as *const c_void;
    }
    std::ptr::null()
}

/// Describes the component T, for [`plugin!`](crate::plugin). The function of a kind makes it:
/// `tenon::loss::<T>()`.
pub struct Descriptor<T> {
    raw: tenon_component,
    component: PhantomData<T>,
}

impl<T: Component> Descriptor<T> {
    pub(crate) fn new<K>(kind: &str, interface_id: &'static CStr, table: &'static K) -> Self {
        // Descriptors live as long as the process.
        let forever = |text: &str| c_text(text).into_raw() as *const c_char;
        Descriptor {
            raw: tenon_component {
                struct_size: size_of::<tenon_component>(),
                kind: forever(kind),
                r#type: forever(T::TYPE),
                interface_id: interface_id.as_ptr(),
                table: table as *const K as *const c_void,
                summary: forever(T::SUMMARY),
                options_schema: forever(T::OPTIONS),
                create: Some(create::<T>),
                destroy: Some(destroy::<T>),
                get_extension: None,
                get_table: None,
            },
            component: PhantomData,
        }
    }

    /// Registers that checkpoints store the state of the component.
    pub fn stateful(mut self) -> Self
    where
        T: Stateful,
    {
        self.raw.get_extension = Some(get_extension::<T>);
        self
    }

    /// The descriptor without its type.
    pub fn into_raw(self) -> RawComponent {
        RawComponent(self.raw)
    }
}

/// A descriptor without its type.
pub struct RawComponent(tenon_component);

/// Registers components: the body of the entry point. [`plugin!`](crate::plugin) calls it.
///
/// # Safety
/// `args` is null or the argument of the entry point.
pub unsafe fn register(
    args: *mut tenon_entry_args,
    components: impl FnOnce() -> Vec<RawComponent>,
) -> *mut tenon_status {
    // The size is read alone: a host of another version may pass a smaller struct.
    if args.is_null() || *(args as *const usize) < size_of::<tenon_entry_args>() {
        return std::ptr::null_mut();
    }
    let args = &mut *args;
    let host = Host::new(args.host);
    host.set_loader();
    record_panics();
    guard(host, || {
        if args.abi_major != TENON_ABI_MAJOR
            || args.abi_minor_min > TENON_ABI_MINOR
            || args.abi_minor_max < TENON_ABI_MINOR
        {
            let message = format!(
                "the plugin uses ABI {}, the host supports {}.{} to {}.{}; rebuild the plugin with \
                 the host's SDK",
                TENON_ABI_STRING,
                args.abi_major,
                args.abi_minor_min,
                args.abi_major,
                args.abi_minor_max
            );
            return Err(Error::unsupported("abi_mismatch", message));
        }
        args.out_abi_minor = TENON_ABI_MINOR;
        for RawComponent(component) in components() {
            let component: &'static tenon_component = Box::leak(Box::new(component));
            check(host, call!(args.register_component(args.registrar, component)))?;
        }
        Ok(())
    })
}
