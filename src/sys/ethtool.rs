//! What an interface does for the network stack (linux/ethtool.h).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Commands of `SIOCETHTOOL` that set one feature, with the feature's name.
const FEATURES: [(u32, &str); 5] = [
    (0x15, "receive checksums"),
    (0x17, "transmit checksums"),
    (0x1f, "TCP segmentation"),
    (0x24, "generic segmentation"),
    (0x2c, "generic receive offload"),
];

/// Takes segmentation and checksums from an interface of the calling thread's namespace, so that what leaves
/// it are packets as a wire would carry them.
///
/// # Errors
/// The feature that could not be turned off, and the error of ioctl(2).
pub(crate) fn offloads_off(interface: &str) -> io::Result<()> {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    for (command, feature) in FEATURES {
        let mut value = Value { command, data: 0 };
        // SAFETY: all-zero bytes are a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request
            .ifr_name
            .iter_mut()
            .take(libc::IFNAMSIZ - 1)
            .zip(interface.bytes())
        {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the request and the value that it points to outlive the call.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if result < 0 {
            let error = io::Error::last_os_error();
            return Err(io::Error::new(error.kind(), format!("{feature}: {error}")));
        }
    }
    Ok(())
}

/// linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
