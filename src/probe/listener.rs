//! A look at a listening socket through the socket itself, for those who hold it: two system calls and no
//! message. What it shows is what [`super::diag`] shows.

use std::io;
use std::os::fd::AsFd;

use crate::observation::Look;
use crate::sys;

/// Looks at a socket; `None` when it does not listen.
///
/// # Errors
/// The error of getsockopt(2).
pub fn look(socket: impl AsFd) -> io::Result<Option<Look>> {
    let queue = sys::listen_queue(&socket)?;
    if !queue.listens {
        return Ok(None);
    }
    let drops = match sys::drops(&socket) {
        Ok(drops) => Some(drops),
        // A kernel that does not tell.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => None,
        Err(error) => return Err(error),
    };
    Ok(Some(Look {
        recv_q: queue.waiting,
        send_q: queue.limit,
        drops,
    }))
}
