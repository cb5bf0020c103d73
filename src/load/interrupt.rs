//! The word that a trial is to end before its time.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Wakes everybody who waits in a trial. The default one never does.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    inner: Option<Arc<Inner>>,
}

#[derive(Debug)]
struct Inner {
    event: EventFd,
    signal: AtomicI32,
}

impl Interrupt {
    /// One that can be raised.
    ///
    /// # Errors
    /// The error of eventfd(2).
    pub fn new() -> Result<Self, Errno> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self {
            inner: Some(Arc::new(Inner {
                event,
                signal: AtomicI32::new(0),
            })),
        })
    }

    /// Ends the running trial, because of this signal.
    ///
    /// # Errors
    /// The error of write(2).
    pub fn raise(&self, signal: i32) -> Result<(), Errno> {
        let Some(inner) = &self.inner else {
            return Ok(());
        };
        inner.signal.store(signal, Ordering::Relaxed);
        inner.event.write(1).map(|_| ())
    }

    /// The signal for which it was raised.
    pub fn raised(&self) -> Option<i32> {
        let signal = self.inner.as_ref()?.signal.load(Ordering::Relaxed);
        (signal != 0).then_some(signal)
    }

    /// Readable from the moment it is raised.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_ref().map(|inner| inner.event.as_fd())
    }
}
