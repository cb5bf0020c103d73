//! Raw system calls that no crate wraps. The only place that may hold `unsafe`.
#![allow(unsafe_code, reason = "this module exists to hold it")]

#[cfg(feature = "lab")]
mod ethtool;
mod listener;
#[cfg(feature = "lab")]
mod packet;
mod poll;
#[cfg(feature = "lab")]
mod process;
#[cfg(feature = "lab")]
mod readiness;
#[cfg(feature = "lab")]
mod sched;

#[cfg(feature = "lab")]
pub(crate) use ethtool::offloads_off;
#[cfg(feature = "lab")]
pub(crate) use listener::defer_accept;
pub(crate) use listener::{ListenQueue, listen_queue};
#[cfg(feature = "lab")]
pub(crate) use packet::PacketSocket;
pub(crate) use poll::wait;
#[cfg(feature = "lab")]
pub(crate) use process::{Broadcast, Pidfd, close_all_but, contain, die_with_parent, limit_files};
#[cfg(feature = "lab")]
pub(crate) use readiness::watch;
#[cfg(feature = "lab")]
pub(crate) use sched::{give_way, run_promptly};
