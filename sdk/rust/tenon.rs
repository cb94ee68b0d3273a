// SPDX-License-Identifier: Apache-2.0

//! Plugins of Tenon in Rust, without crates: the safe layer over the declarations of [`abi`].
//!
//! A component is a type that implements [`Component`] and the trait of its kind: [`Loss`],
//! [`Hook`], [`MapDataset`] or [`LrScheduler`]. [`plugin!`] defines the entry point. No plugin needs
//! `unsafe`. What this layer lacks is in [`abi`].
//!
//! - A panic inside a call becomes a status with its message, file and line. The process continues.
//! - A [`Tensor`] releases its handle when it is dropped. A [`TensorRef`] is borrowed from the host.
//! - Methods with `&mut self` are those that the host calls one at a time. Reads of a dataset run
//!   concurrently, so they take `&self`, and a dataset is `Sync`.
//! - If an allocation fails, Rust aborts the process.
//!
//! Compiles with Rust 1.63 and newer.
#![warn(missing_docs)]

#[path = "tenon_abi.rs"]
#[allow(missing_docs)]
pub mod abi;

mod component;
mod dataset;
mod error;
mod exec;
mod hook;
mod host;
mod loss;
mod lr_scheduler;
mod manifest;
mod options;
mod state;
mod tensor;

pub use component::{register, Component, Context, Descriptor, RawComponent};
pub use dataset::{map_dataset, Batch, DatasetInfo, Field, MapDataset};
pub use error::{Error, Result};
pub use exec::Exec;
pub use hook::{hook, Event, Hook, HookInfo};
pub use host::Host;
pub use loss::{loss, Inputs, Loss, LossInfo};
pub use lr_scheduler::{lr_scheduler, LrScheduler};
pub use manifest::Note;
pub use options::Options;
pub use state::{StateReader, StateWriter, Stateful};
pub use tensor::{Element, Tensor, TensorRef};

/// Defines the entry point of the plugin, from its components:
///
/// ```ignore
/// tenon::plugin!(tenon::loss::<Focal>(), tenon::hook::<Average>().stateful());
/// ```
///
/// Use it once per plugin.
#[macro_export]
macro_rules! plugin {
    ($($component:expr),+ $(,)?) => {
        /// The entry point.
        ///
        /// # Safety
        /// Only the host calls it.
        #[no_mangle]
        pub unsafe extern "C" fn tenon_plugin_entry(
            args: *mut $crate::abi::tenon_entry_args,
        ) -> *mut $crate::abi::tenon_status {
            $crate::register(args, || vec![$($component.into_raw()),+])
        }
    };
}
