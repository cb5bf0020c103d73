//! Raw system calls that no crate wraps. The only place that may hold `unsafe`.
#![allow(unsafe_code, reason = "this module exists to hold it")]

mod listener;
#[cfg(feature = "lab")]
mod process;

#[cfg(feature = "lab")]
pub(crate) use listener::defer_accept;
pub(crate) use listener::{ListenQueue, listen_queue};
#[cfg(feature = "lab")]
pub(crate) use process::{Pidfd, contain, die_with_parent};
