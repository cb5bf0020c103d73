//! Raw system calls that no crate wraps. The only place that may hold `unsafe`.
#![allow(unsafe_code, reason = "this module exists to hold it")]

mod listener;

pub(crate) use listener::{defer_accept, listen_limit};
